package config

import "testing"

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "", 2}, {"MODE", "MODE", 0}, {"kitten", "sitting", 3}, {"LOGLEVEL", "LOG_LEVEL", 1}, {"LOG_LEVEL", "LOGLEVEL", 1}} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance of %q and %q: got %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
