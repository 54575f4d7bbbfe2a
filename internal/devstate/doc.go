// Package devstate is how a running development system is found by its data
// folder.
//
// It owns one small file, [FileName], with the addresses and the key that
// `countersign dev` prints: dev writes it when everything answers and removes
// it when it stops, the other commands read it. After a kill the file stays,
// so what it names may be gone: whoever reads it finds out by asking.
//
// The file holds an API key. It is written for its owner's eyes only, and in
// one step, so that a reader never sees half of it.
//
// It imports nothing of ours.
package devstate
