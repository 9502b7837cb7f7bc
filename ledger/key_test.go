package ledger_test

import (
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/ledger"
)

// words has 72 characters that count.
const words = "I should look at the file once more, and then once more, to be sure that nothing was missed."

func TestItemID(t *testing.T) {
	for id, want := range map[string]bool{
		"":                      false,
		"rs_1":                  false,
		"rs_0123456789ab":       false, // 15
		"rs_0123456789abc":      true,  // 16
		strings.Repeat("ä", 15): false,
		strings.Repeat("ä", 16): true,
		"rs_" + strings.Repeat("0123456789abcdef", 3): true,
		strings.Repeat("x", 1<<20):                    true,
	} {
		if got := !ledger.ItemID(id).IsZero(); got != want {
			t.Errorf("%.40q: got a key %v, want %v", id, got, want)
		}
	}
}

func TestKeysWithoutLeastLength(t *testing.T) {
	for name, key := range map[string]func(string) ledger.Key{"Sealed": ledger.Sealed, "Alias": ledger.Alias} {
		if got := key(""); !got.IsZero() {
			t.Errorf("%s of nothing: got %v, want the zero key", name, got)
		}
		if got := key("x"); got.IsZero() {
			t.Errorf("%s of a character: got the zero key, want another", name)
		}
	}
}

// What clients do to a text on its way back does not change its key.
func TestTextSame(t *testing.T) {
	want := ledger.Text(words)
	if want.IsZero() {
		t.Fatal("got the zero key, want another")
	}
	for name, text := range map[string]string{
		"trimmed":           strings.TrimSpace("\n " + words + "\t\n"),
		"with margins":      "\r\n\u00a0 " + words + "\u2003\n\n",
		"other line ends":   strings.ReplaceAll(words, " ", "\r\n"),
		"parts joined":      strings.Replace(words, ", ", ",\n\n", 1),
		"no white space":    strings.ReplaceAll(words, " ", ""),
		"broken characters": "\xff" + words[:20] + "\ufffd" + words[20:] + "\xe2\x82",
	} {
		if got := ledger.Text(text); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

func TestTextDifferent(t *testing.T) {
	seen := map[ledger.Key]string{}
	long := strings.Repeat("ä€😀x", 1000) // more than fits the buffer it is read through
	for _, text := range []string{
		words, strings.ToUpper(words), words + ".", words + words, words[1:],
		strings.Repeat("e\u0301", 64), strings.Repeat("\u00e9", 64), // Unicode forms
		long, long[:len(long)-1], long + "x", strings.Replace(long, "ä", "ö", 1),
	} {
		k := ledger.Text(text)
		if other, ok := seen[k]; ok {
			t.Errorf("got one key for %.40q and %.40q, want two", text, other)
		}
		seen[k] = text
	}
}

func TestTextLeastLength(t *testing.T) {
	for text, want := range map[string]bool{
		"": false,
		"**Inspecting the repository structure**":                false,
		strings.Repeat("x", 63):                                  false,
		strings.Repeat("x", 64):                                  true,
		strings.Repeat("€", 63):                                  false,
		strings.Repeat("€", 64):                                  true,
		strings.Repeat(" ", 100) + "x":                           false,
		strings.Repeat("x\n", 63) + strings.Repeat("\ufffd", 10): false,
	} {
		if got := !ledger.Text(text).IsZero(); got != want {
			t.Errorf("%.40q: got a key %v, want %v", text, got, want)
		}
	}
}

// Files and Redis outlive the program: a key must read the same for ever.
func TestKeyIsForGood(t *testing.T) {
	for want, k := range map[string]ledger.Key{
		"item:IKqvglrrW670qSO0emAfbkE-WswiTsTLxO6h_cOROBE":   ledger.ItemID("rs_0123456789abc"),
		"sealed:IKqvglrrW670qSO0emAfbkE-WswiTsTLxO6h_cOROBE": ledger.Sealed("rs_0123456789abc"),
		"alias:IKqvglrrW670qSO0emAfbkE-WswiTsTLxO6h_cOROBE":  ledger.Alias("rs_0123456789abc"),
		"text:2WrZnHGFW4UEtrq-H5orWLZLWBmVQjB4ldRTyhDiVAw":   ledger.Text(words),
		"none": {},
	} {
		if got := k.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
