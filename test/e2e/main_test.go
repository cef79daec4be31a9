package e2e

import (
	"flag"
	"os"
	"testing"
)

// atOnce is how many scenes take place at the same time unless -parallel says otherwise: an upgrade mostly waits.
const atOnce = "8"

func TestMain(m *testing.M) {
	if address := os.Getenv(loginAddress); address != "" {
		os.Exit(logIn(address, os.Stdout, os.Stderr))
	}
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", atOnce); err != nil {
			panic(err) // the testing package has always had it
		}
	}
	os.Exit(m.Run())
}
