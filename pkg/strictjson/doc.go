// Package strictjson reads and writes JSON without forgiving anything.
//
// It owns how bytes from outside become values, and is the only home of
// github.com/go-json-experiment/json. What is approved, hashed and run is the
// bytes that came, so two readers must never understand one body in two ways:
// doubled names, names that differ in case only, repaired UTF-8, lone
// surrogates, white space and garbage behind the end, members that nobody
// reads, and null where a value is due are errors here. The standard
// library's encoder accepts all of these.
//
// It promises that an error never quotes a value from the body (it may be a
// secret), that it says where ([Error.Pointer], RFC 6901) and of which kind
// ([Malformed], [Invalid]), that [Raw] holds a value exactly as it stood in
// the body, and that [Marshal] writes it back byte by byte.
//
// A NUL inside a string (\u0000) is legal JSON and passes; what may stand in
// ids and reasons is the model's rule, not the grammar's.
//
// It imports nothing of ours.
package strictjson
