package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/cast"
	"github.com/kubectl-nodeupgrade/kubectl-nodeupgrade/test/fixture"
)

// record runs kubectl on a terminal of its own, once for each command, and writes the recording into a file.
func record(ctx context.Context, s *fixture.Fixture, commands []string, file string) error {
	began, recording := time.Now(), cast.New()
	for _, args := range commands {
		fmt.Printf("Recording kubectl %s\n", args)
		cmd := s.NewShellCommand(ctx, "exec kubectl "+args)
		cmd.Env = append(slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "NO_COLOR=") }), "TERM=xterm")
		code, err := recording.Run("kubectl "+args, cmd)
		if err != nil {
			return err
		}
		if code != 0 {
			return fmt.Errorf("kubectl %s failed with exit code %d", args, code)
		}
	}
	took := time.Since(began)
	frames := cast.Pace(recording.Shots)
	length := cast.Length(frames)
	picture := cast.SVG(fmt.Sprintf("kubectl nodeupgrade: a recorded run of %s, shown in %s", took.Round(time.Second), length.Round(time.Second)), frames)
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return fmt.Errorf("writing the recording: %w", err)
	}
	if err := os.WriteFile(file, picture, 0o666); err != nil {
		return fmt.Errorf("writing the recording: %w", err)
	}
	fmt.Printf("%s has %d bytes and %d frames, which take %s\n", file, len(picture), len(frames), length.Round(time.Second))
	return nil
}
