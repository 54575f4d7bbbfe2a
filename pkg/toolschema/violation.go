package toolschema

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

const (
	maxViolations = 20
	maxDetail     = 300 // bytes of a sentence
	maxPointer    = 200 // bytes of a pointer: names in it are the sender's
	maxName       = 100 // bytes of a name or pattern within a sentence
)

var english = message.NewPrinter(language.English)

// violations flattens the library's tree into its leaves.
func violations(err *jsonschema.ValidationError) []Violation {
	var found []Violation
	collect(err, &found)
	slices.SortFunc(found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Detail, b.Detail))
	})
	found = slices.Compact(found)
	if more := len(found) - maxViolations; more > 0 {
		found = append(found[:maxViolations:maxViolations], Violation{Detail: fmt.Sprintf("%d more violations, not shown", more)})
	}
	return found
}

func collect(err *jsonschema.ValidationError, found *[]Violation) {
	if len(err.Causes) == 0 {
		*found = append(*found, Violation{
			Pointer: clip(pointer(err.InstanceLocation), maxPointer),
			Detail:  clip(detail(err.ErrorKind), maxDetail),
		})
		return
	}
	for _, cause := range err.Causes {
		collect(cause, found)
	}
}

var pointerEscape = strings.NewReplacer("~", "~0", "/", "~1")

func pointer(tokens []string) string {
	var b strings.Builder
	for _, token := range tokens {
		b.WriteByte('/')
		b.WriteString(pointerEscape.Replace(token))
	}
	return b.String()
}

// detail words a rule. The kinds listed here are those whose own wording
// repeats the value, which may be a secret.
func detail(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Format:
		if k.Want == "regex" {
			return "is not a regular expression of RE2 syntax (no lookaround, no backreferences)"
		}
		return fmt.Sprintf("is not a valid %s", k.Want)
	case *kind.Pattern:
		return fmt.Sprintf("does not match the pattern %s", clip(k.Want, maxName))
	case *kind.Minimum:
		return "must be at least " + number(k.Want)
	case *kind.Maximum:
		return "must be at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	case *kind.ContentEncoding:
		return fmt.Sprintf("is not encoded as %s", k.Want)
	case *kind.ContentMediaType:
		return fmt.Sprintf("is not of the media type %s", k.Want)
	case *kind.FalseSchema:
		return "is not allowed here"
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties) // the library's order is a map's
	}
	return k.LocalizedString(english)
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	text := strings.TrimRight(r.FloatString(20), "0")
	return strings.TrimSuffix(text, ".")
}

// clip bounds text, on a rune's border, and shows that it did.
func clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// trimLocation hides where the schema pretends to be.
func trimLocation(text string) string {
	text = strings.ReplaceAll(text, location+"#", "#")
	text = strings.ReplaceAll(text, location, "#")
	return strings.ReplaceAll(text, "schema:///", "")
}
