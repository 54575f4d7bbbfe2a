// Package scripted is a model provider whose model is a function: it speaks
// OpenAI's chat completions, streamed, over real HTTP, and can fail in every
// way in which a provider can. Tests and demonstrations use it where a real
// model would be slow, dear, and never the same twice.
//
// It imports nothing of ours.
package scripted
