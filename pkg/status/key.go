package status

import (
	"net/url"

	"github.com/countersign/countersign/pkg/model"
)

// identity names one topic of one tenant in letters, digits and "-_.~%+",
// injectively; it is stored inside the value and follows "ts:" in the key.
// No id can hold a colon or a brace after that: a brace would choose the
// key's slot on a Redis Cluster, where entries are to be spread evenly.
func identity(tenant model.TenantID, topic model.TopicID) string {
	return url.QueryEscape(string(tenant)) + ":" + url.QueryEscape(string(topic))
}

// keyOf names an entry within an epoch of the database; "" is an epoch, too.
func keyOf(epoch, identity string) string {
	if epoch == "" {
		return "ts:" + identity
	}
	return "ts:" + epoch + ":" + identity
}
