// Package httpapi is the HTTP contract: routes, keys and roles, limits, and
// the problem documents in which everything that goes wrong is told.
//
// Every route is one line of [API.routes] and one handler that returns an
// answer or an error. The line says what the handler takes and gives, as Go
// types; the OpenAPI document at /openapi.json is made from those very types.
// What is read is read strictly (see pkg/strictjson), what is written keeps
// raw values byte by byte, and an error never repeats a value.
//
// One table (problemOf) gives every sentinel of pkg/model its problem, and one
// function writes problems, so that the same mistake looks the same
// everywhere. What a key may not see does not exist for it: an id that is
// unknown and one that is another tenant's have the same answer, byte by byte
// (I9).
//
// Reads answer from Postgres but for the topics' projections, which come from
// Redis and never decide anything. It imports pkg/model, pkg/store's types,
// pkg/policy, pkg/toolschema, pkg/strictjson, pkg/daemon (the end of waiting
// when the server drains), its siblings approval, view and watch, and huma for
// the OpenAPI document.
package httpapi
