// Package uistream is the UI message stream of the AI SDK, as a server needs
// it: the chunks of which a stream is made, what one step of the model's
// chunks come to as parts of a message, a message's parts told again as
// chunks, the framing, and the signature of approval requests.
//
// It is pure: no I/O but the readers and writers it is given, no clock, no
// rows. What a call's verdict is, and whether a chunk may be shown yet, its
// caller says. It exists so that the api, which takes streams in and gives
// them out, and the built-in model, which makes them, speak of the same
// chunks.
//
// It promises that a chunk which it lets through is one that a client of the
// SDK's version accepts (ai 6.0.325 and 7.0.173, whose streams and reducers
// were observed; the captures are in testdata), that raw values stay the bytes
// they were, and that the parts of a [Step] are those which the SDK's own
// client makes of the same chunks.
//
// It imports pkg/strictjson.
package uistream
