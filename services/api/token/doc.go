// Package token makes and reads the credentials that a chat backend mints for
// people: what a browser shows to read, follow and chat in some topics.
//
// A token is a JSON Web Token, signed (HMAC-SHA256) with a secret of the key
// that minted it, and nothing of it is stored. So minting costs no commit, and
// a node that checks a thousand open windows reads one row per minting key and
// not one per window. The secret goes with its key: whoever deletes the key,
// or makes another under its name, ends all of its tokens. Rotation is two
// keys for a while: mint with the new one, and delete the old one when the
// last of its tokens has expired, a day later at most.
//
// One algorithm is read and no other, whatever a token's header says, and the
// expiry must be there. What a token says about itself finds its key and is
// believed after the signature holds. What the bearer may do is not in it: the
// key's row says that, at the moment of asking.
//
// It imports pkg/model and golang-jwt, whose home it is.
package token
