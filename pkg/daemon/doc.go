// Package daemon is what the mains share: configuration, secrets, logs,
// traces and metrics, health, listening, and the order of stopping.
//
// A main is wiring and nothing else:
//
//	func main() { daemon.Main(run) }
//
//	func run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) error {
//		var cfg Config // embeds daemon.Common
//		if err := daemon.Parse("api", "Answers backends and people.", &cfg, args, getenv, stdout); err != nil {
//			return err
//		}
//		log := daemon.NewLogger(stdout, cfg.LogFormat, cfg.LogLevel)
//		daemon.Announce(log, &cfg, getenv)
//		...
//		return daemon.Run(ctx, log, cfg.Grace, parts...)
//	}
//
// It promises:
//
//   - Configuration is one struct per service. Every setting is a flag and an
//     environment variable and is listed by -h; a secret can also come from a
//     file. What is in force is logged at start.
//   - A secret masks itself wherever it is printed, logged or marshalled.
//   - Nothing is global unless asked for: several services can run in one
//     process, each with its own telemetry, and only [Main] handles signals.
//   - Stopping is ordered and bounded: what brings work in ends first, and
//     whatever does not end in time is named.
//
// It owns the OpenTelemetry SDK, kong, tint and client_golang; everybody else
// uses the OpenTelemetry API alone. It imports nothing of ours but
// internal/owner, for errors that name who holds a port.
package daemon
