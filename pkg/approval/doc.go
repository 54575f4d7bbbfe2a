// Package approval is the use cases, without HTTP: it turns an assistant turn,
// as a chat backend or the model loop hands it over, into a registration in
// which every call has its verdict, and an answer, as a person gives it, into
// a decision. The api uses all of it, the worker the turns alone.
//
// It owns the rules about what a turn may look like and what becomes of each
// of its calls (steps 1 and 2 of the nine: evaluate, register). It promises
// that whatever it lets through passes the AI SDK's validation when it is
// read again, that inputs keep their exact bytes, that approval state never
// comes from a client, and that an error names the place and never repeats a
// value.
//
// What stands or falls with a lock is not decided here but by pkg/model,
// within pkg/store's transactions: here nothing is remembered between two
// requests but compiled schemas.
//
// It imports pkg/model, pkg/policy, pkg/store's types, pkg/strictjson,
// pkg/toolschema, pkg/egress (which URLs can be targets at all) and the
// sibling uimessage (which fields a part may carry).
package approval
