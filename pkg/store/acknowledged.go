package store

import "sync"

// rememberedTopics is how many topics this node remembers its last commit of:
// more than commits in the seconds that a standby may lag behind.
const rememberedTopics = 8192

// acknowledged remembers the versions that this node's commits gave to topics,
// to find out after a failover whether the new primary has them.
type acknowledged struct {
	mu       sync.Mutex
	versions map[TopicKey]int64
	order    []TopicKey // a ring, oldest at next
	next     int
}

func (a *acknowledged) add(changes []Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.versions == nil {
		a.versions = map[TopicKey]int64{}
	}
	for _, c := range changes {
		key := TopicKey{c.Tenant, c.Topic}
		if known, there := a.versions[key]; there {
			a.versions[key] = max(known, c.Version)
			continue
		}
		a.versions[key] = c.Version
		if len(a.order) < rememberedTopics {
			a.order = append(a.order, key)
			continue
		}
		delete(a.versions, a.order[a.next])
		a.order[a.next] = key
		a.next = (a.next + 1) % rememberedTopics
	}
}

// take gives all of them and forgets them.
func (a *acknowledged) take() map[TopicKey]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.versions
	a.versions, a.order, a.next = nil, nil, 0
	return taken
}
