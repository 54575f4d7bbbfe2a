// Package toolschema checks the inputs of tools against their JSON Schemas.
//
// Schemas come from strangers (an MCP server's tools/list), so it promises:
//   - No reference leads outside: a loader that denies is always installed,
//     and no schema opens a file or a URL. The metaschemas of json-schema.org
//     are built in.
//   - Numbers are compared exactly, never as float64.
//   - What a schema or an input costs is bounded: size, depth, digits,
//     exponents, and the number of schema evaluations of one validation.
//     Regular expressions are Go's (RE2), which run in linear time; a pattern
//     they cannot express is an error of [Compile].
//   - A violation names the place and the rule and never repeats the value.
//
// The dialect is 2020-12 unless the schema's $schema names another one
// (draft-04 to 2020-12). An absent or empty schema accepts any JSON value.
//
// It is the home of santhosh-tekuri/jsonschema and imports nothing of ours.
package toolschema
