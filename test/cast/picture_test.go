package cast

import (
	"bytes"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestUpgradePictureIsSmallAndSelfContained checks the picture that "make cast" has drawn: its size, its texts, and that it needs nothing but itself.
func TestUpgradePictureIsSmallAndSelfContained(t *testing.T) {
	picture, err := os.ReadFile("../../docs/pictures/upgrade.svg")
	if err != nil {
		t.Fatal(err)
	}
	if most := 300_000; len(picture) > most {
		t.Errorf("the picture has %d bytes, more than %d", len(picture), most)
	}
	texts, names := parse(t, picture)
	for _, want := range []string{"$ kubectl nodeupgrade workers --dry-run", "$ kubectl nodeupgrade workers --yes --settle 5s", "nodegroup/workers upgraded: 12 of 12 nodes replaced"} {
		if !slices.ContainsFunc(slices.Collect(maps.Values(texts)), func(text string) bool { return strings.HasPrefix(text, want) }) {
			t.Errorf("no row begins with %q", want)
		}
	}
	for _, foreign := range []string{"script", "image", "foreignObject", "a"} {
		if names[foreign] > 0 {
			t.Errorf("the picture has the element %s", foreign)
		}
	}
	if bytes.Contains(picture, []byte("url(")) || bytes.Contains(picture, []byte("@import")) {
		t.Error("the picture refers to other files")
	}
}
