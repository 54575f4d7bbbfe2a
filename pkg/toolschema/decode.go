package toolschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maxDepth bounds the nesting of a schema and of an input.
	maxDepth = 128
	// maxDigits and maxExponent bound a number: rational arithmetic on
	// 1e999999 takes megabytes, and a double ends at 1e308.
	maxDigits   = 1000
	maxExponent = 400
)

// decode keeps numbers as they are written.
func decode(data []byte) (any, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("is not valid JSON: %w", err)
	}
	if err := checkBounds(doc, 0); err != nil {
		return nil, err
	}
	return doc, nil
}

func checkBounds(v any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("is nested deeper than %d levels", maxDepth)
	}
	switch v := v.(type) {
	case json.Number:
		return checkNumber(string(v))
	case []any:
		for _, item := range v {
			if err := checkBounds(item, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, value := range v {
			if err := checkBounds(value, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkNumber(text string) error {
	if len(text) > maxDigits {
		return fmt.Errorf("has a number of more than %d digits", maxDigits)
	}
	_, exponent, ok := strings.Cut(strings.ToLower(text), "e")
	if !ok {
		return nil
	}
	if n, err := strconv.Atoi(exponent); err != nil || n > maxExponent || n < -maxExponent {
		return errors.New("has a number whose exponent is beyond ±" + strconv.Itoa(maxExponent))
	}
	return nil
}
