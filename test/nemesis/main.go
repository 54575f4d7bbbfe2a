package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/countersign/countersign/test/nemesis/site"
	"github.com/countersign/countersign/test/nemesis/trial"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "nemesis:", err)
		os.Exit(1)
	}
}

// fixed are the seeds of a run that names none.
var fixed = []uint64{1, 2, 3}

// errFound says that a run failed; it has said why.
var errFound = errors.New("a run failed")

// run makes the runs that the arguments ask for, and stops at the first that
// fails.
func run(ctx context.Context, args []string, out io.Writer) error {
	begin := time.Now()
	flags := flag.NewFlagSet("nemesis", flag.ContinueOnError)
	seed := flags.String("seed", "", "the run's seed, a number or random; three fixed ones by default")
	minutes := flags.Float64("minutes", 5, "how long all runs together may take")
	bug := flags.String("bugs", "", "find a known bug by its tag, or all of them, instead")
	programs := flags.String("programs", "", "a folder of programs built before, which saves building them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	seeds, err := seedsOf(*seed)
	if err != nil {
		return err
	}
	dir, err := folder()
	if err != nil {
		return err
	}
	if *bug != "" {
		return findAll(ctx, *bug, dir, out)
	}
	if *programs == "" {
		*programs = filepath.Join(dir, "programs")
		fmt.Fprintf(out, "building into %s\n", *programs)
		if err := site.Build(ctx, *programs); err != nil {
			return err
		}
	}
	each := (time.Duration(*minutes*float64(time.Minute)) - time.Since(begin)) / time.Duration(len(seeds))
	for _, s := range seeds {
		report, err := one(ctx, trial.Config{Seed: s, Load: load(each), Programs: *programs, Out: out}, dir)
		if err != nil {
			return fmt.Errorf("seed %d: %w; what there is of it is in %s", s, err, dir)
		}
		if report.Failed() {
			return fmt.Errorf("seed %d: %w; the run is in %s", s, errFound, dir)
		}
	}
	return os.RemoveAll(dir)
}

// one makes a run in a folder of its own.
func one(ctx context.Context, c trial.Config, dir string) (trial.Report, error) {
	c.Dir = filepath.Join(dir, fmt.Sprintf("seed-%d", c.Seed))
	if err := os.Mkdir(c.Dir, 0o755); err != nil {
		return trial.Report{}, err
	}
	return trial.Run(ctx, c)
}

// around is what a run needs besides its load: starting, healing, coming to
// rest, checking.
const around = 40 * time.Second

func load(each time.Duration) time.Duration { return max(each-around, 10*time.Second) }

func seedsOf(text string) ([]uint64, error) {
	switch text {
	case "":
		return fixed, nil
	case "random":
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			return nil, err
		}
		return []uint64{binary.BigEndian.Uint64(b[:]) >> 16}, nil
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the seed is a number or random: %w", err)
	}
	return []uint64{seed}, nil
}

// folder makes the folder of the runs, which the account of Postgres may
// enter. It is removed when all runs were good.
func folder() (string, error) {
	dir, err := os.MkdirTemp("", "countersign-nemesis-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}
