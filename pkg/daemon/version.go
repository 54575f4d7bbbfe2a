package daemon

import "runtime/debug"

// version is stamped by
// -ldflags "-X github.com/countersign/countersign/pkg/daemon.version=v1.2.3".
var version string

// Version is the stamped version, else that of the module as it was
// installed, else "dev".
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}
