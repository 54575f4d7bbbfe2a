package toolschema_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/toolschema"
)

func compile(t *testing.T, schema string) *toolschema.Schema {
	t.Helper()
	s, err := toolschema.Compile([]byte(schema))
	if err != nil {
		t.Fatalf("compile %s: %v", schema, err)
	}
	return s
}

func TestNoSchemaAcceptsAnyJSON(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"", "  ", "{}", "true"} {
		s := compile(t, schema)
		for _, input := range []string{`null`, `{"a":[1]}`, `"x"`, `9007199254740993`} {
			if got := s.Validate([]byte(input)); got != nil {
				t.Errorf("schema %q, input %s: %v", schema, input, got)
			}
		}
		if got := s.Validate([]byte(`{"a":`)); len(got) != 1 || !strings.Contains(got[0].Detail, "not valid JSON") {
			t.Errorf("schema %q accepts broken JSON: %v", schema, got)
		}
	}
}

func TestViolationsNameThePlaceAndTheRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		schema, input string
		want          []toolschema.Violation
	}{
		{`{"type":"object","required":["path"]}`, `{}`, []toolschema.Violation{{"", "missing property 'path'"}}},
		{`{"properties":{"a/b":{"type":"string"}}}`, `{"a/b":1}`, []toolschema.Violation{{"/a~1b", "got number, want string"}}},
		{`{"items":{"type":"integer"}}`, `[1,"x",2.5]`, []toolschema.Violation{
			{"/1", "got string, want integer"}, {"/2", "got number, want integer"}}},
		{`{"additionalProperties":false}`, `{"b":1,"a":2}`, []toolschema.Violation{{"", "additional properties 'a', 'b' not allowed"}}},
		{`{"properties":{"n":{"maximum":9007199254740992}}}`, `{"n":9007199254740993}`,
			[]toolschema.Violation{{"/n", "must be at most 9007199254740992"}}},
		{`{"properties":{"n":{"multipleOf":0.01}}}`, `{"n":0.015}`, []toolschema.Violation{{"/n", "must be a multiple of 0.01"}}},
		{`{"enum":["a","b"]}`, `"c"`, []toolschema.Violation{{"", "value must be one of 'a', 'b'"}}},
	} {
		if diff := cmp.Diff(c.want, compile(t, c.schema).Validate([]byte(c.input))); diff != "" {
			t.Errorf("%s with %s:\n%s", c.schema, c.input, diff)
		}
	}
}

func TestNumbersAreComparedExactly(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"const":9007199254740993}`)
	if got := s.Validate([]byte(`9007199254740993`)); got != nil {
		t.Errorf("the same number does not fit: %v", got)
	}
	if got := s.Validate([]byte(`9007199254740992`)); got == nil {
		t.Error("a neighbour that is the same double fits")
	}
}

func TestViolationsNeverRepeatTheValue(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	for _, schema := range []string{
		`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"k":{"format":"email"}}}`,
		`{"properties":{"k":{"pattern":"^[0-9]+$"}}}`,
		`{"properties":{"k":{"enum":["a"]}}}`,
		`{"properties":{"k":{"const":"a"}}}`,
		`{"properties":{"k":{"maxLength":3}}}`,
		`{"properties":{"k":{"type":"number"}}}`,
		`{"properties":{"k":{"not":{}}}}`,
		`{"properties":{"k":false}}`,
		`{"properties":{"k":{"anyOf":[{"type":"null"},{"const":1}]}}}`,
	} {
		got := compile(t, schema).Validate([]byte(`{"k":"` + secret + `"}`))
		if len(got) == 0 {
			t.Errorf("%s: no violation", schema)
		}
		for _, v := range got {
			if strings.Contains(v.Detail, secret) || v.Pointer != "/k" {
				t.Errorf("%s: %+v", schema, v)
			}
		}
	}
}

func TestViolationsAreBounded(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"additionalProperties":{"type":"string"}}`)
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, `,"%d%s":1`, i, strings.Repeat("é", 300))
	}
	got := s.Validate([]byte("{" + b.String()[1:] + "}"))
	if len(got) != 21 || !strings.Contains(got[20].Detail, "480 more") {
		t.Fatalf("%d violations, last %+v", len(got), got[len(got)-1])
	}
	for _, v := range got {
		if len(v.Pointer) > 210 || len(v.Detail) > 310 {
			t.Errorf("too long: %d, %d", len(v.Pointer), len(v.Detail))
		}
	}
}

func TestNoReferenceLeadsOutside(t *testing.T) {
	t.Parallel()
	for _, ref := range []string{
		"file:///etc/passwd", "http://127.0.0.1:1/x", "https://example.com/s.json", "other.json", "/etc/passwd", "urn:x:y",
	} {
		for _, schema := range []string{`{"$ref":%q}`, `{"properties":{"a":{"$ref":%q}}}`, `{"$schema":%q}`, `{"$id":"https://a.example/","$ref":%q}`} {
			_, err := toolschema.Compile(fmt.Appendf(nil, schema, ref))
			if err == nil {
				t.Errorf(schema+" compiles", ref)
			} else if strings.Contains(err.Error(), "schema:///") {
				t.Errorf(schema+": %v", ref, err)
			}
		}
	}
	if _, err := toolschema.Compile([]byte(`{"$ref":"file:///etc/passwd"}`)); !strings.Contains(err.Error(), "references outside of the schema are not followed") {
		t.Error(err)
	}
}

func TestReferencesWithinWork(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"$id":"https://a.example/s","$defs":{"n":{"type":"object","properties":{"next":{"$ref":"#/$defs/n"}},"required":["v"]}},"$ref":"#/$defs/n"}`)
	if got := s.Validate([]byte(`{"v":1,"next":{"v":2}}`)); got != nil {
		t.Error(got)
	}
	if got := s.Validate([]byte(`{"v":1,"next":{}}`)); len(got) != 1 || got[0].Pointer != "/next" {
		t.Error(got)
	}
}

func TestTheDialectIsTheSchemasOwn(t *testing.T) {
	t.Parallel()
	const tuple = `"items":[{"type":"string"}],"additionalItems":false`
	old := compile(t, `{"$schema":"http://json-schema.org/draft-07/schema#",`+tuple+`}`)
	if got := old.Validate([]byte(`["a","b"]`)); len(got) != 1 {
		t.Errorf("draft-07 tuple: %v", got)
	}
	if _, err := toolschema.Compile([]byte(`{` + tuple + `}`)); err == nil {
		t.Error("a draft-07 tuple compiles as 2020-12")
	}
	modern := compile(t, `{"prefixItems":[{"type":"string"}],"items":false}`)
	if got := modern.Validate([]byte(`["a","b"]`)); len(got) != 1 {
		t.Errorf("2020-12 tuple: %v", got)
	}
}

func TestBadSchemasAreExplained(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"type":"strin"}`:                         `at "/type"`,
		`{"properties":{"a":{"pattern":"(?=x)"}}}`: "RE2",
		`[]`:                      "object or a boolean",
		`{"a":1}x`:                "not valid JSON",
		`{"$ref":"#/$defs/gone"}`: "#/$defs/gone",
		`{"minimum":1e99999}`:     "exponent",
		`{"x":"` + strings.Repeat("a", 300000) + `"}`:                    "at most",
		strings.Repeat(`{"not":`, 200) + `{}` + strings.Repeat(`}`, 200): "nested deeper",
	} {
		_, err := toolschema.Compile([]byte(schema))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want %q", schema, err, want)
		}
	}
}

func TestHostileSchemasAndInputsCostLittle(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"$defs":{"n":{"allOf":[{"properties":{"x":{"$ref":"#/$defs/n"}}},{"properties":{"x":{"$ref":"#/$defs/n"}}}]}},"$ref":"#/$defs/n"}`)
	got := s.Validate([]byte(strings.Repeat(`{"x":`, 60) + `1` + strings.Repeat(`}`, 60)))
	if len(got) != 1 || !strings.Contains(got[0].Detail, "too much work") {
		t.Errorf("a doubling schema: %v", got)
	}
	if got := s.Validate([]byte(`{"x":{"x":1}}`)); got != nil {
		t.Errorf("afterwards: %v", got)
	}
	n := compile(t, `{"type":"number","minimum":0,"multipleOf":3}`)
	for _, input := range []string{`1e999999999`, `-1e-999999999`, `1e99999999999999999999`, strings.Repeat("9", 2000)} {
		if got := n.Validate([]byte(input)); len(got) != 1 {
			t.Errorf("%.20s: %v", input, got)
		}
	}
}

func TestCacheCompilesOnceAndForgetsTheOldest(t *testing.T) {
	t.Parallel()
	c := toolschema.NewCache(2)
	var wg sync.WaitGroup
	seen := make([]*toolschema.Schema, 32)
	for i := range seen {
		wg.Go(func() { seen[i], _ = c.Compile("a", []byte(`{"type":"object"}`)) })
	}
	wg.Wait()
	for _, s := range seen {
		if s != seen[0] {
			t.Fatal("compiled twice")
		}
	}
	if _, err := c.Compile("bad", []byte(`{"type":1}`)); err == nil {
		t.Error("a bad schema compiles")
	}
	if again, _ := c.Compile("a", nil); again != seen[0] {
		t.Error("a kept schema is compiled again")
	}
	if _, err := c.Compile("c", nil); err != nil || c.Len() != 2 {
		t.Errorf("%d schemas kept, %v", c.Len(), err)
	}
	if again, _ := c.Compile("a", nil); again != seen[0] {
		t.Error("the most recently used one was forgotten")
	}
}

func TestConcurrentValidation(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"required":["a"]}`)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			input, want := `{"a":1}`, 0
			if i%2 == 1 {
				input, want = `{}`, 1
			}
			for range 50 {
				if got := s.Validate([]byte(input)); len(got) != want {
					t.Errorf("%s: %v", input, got)
				}
			}
		})
	}
	wg.Wait()
}
