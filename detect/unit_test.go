package detect

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// unitOf looks at a unit as it is when it repeats.
func unitOf(s string) unit {
	var t tracker
	t.feed([]byte(s), 1<<20, thinkingProfile.exactTimes)
	t.period = len(s)
	return t.unit()
}

func TestKind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]kind{
		"Let me check the file again. ": words,
		"done\n":                        words,
		"    if err != nil {\n        return err\n    }\n": words,
		"\tCALL\truntime.callback(SB)\n":                   words,
		"Read(src/proxy/view_test.go)\n":                   words,
		"I will look.\n</think>\n\n":                       words,
		"<|im_start|>user\n":                               words,

		"我需要检查这个文件然后再次确认结果是否正确代码函数": words,

		"нужно проверить файл ещё раз ": words,

		"/":              marks,
		" ":              marks,
		"?!":             marks,
		"| --- | :---: ": marks,
		"          |\n":  marks,

		"─": marks,

		"！？": marks,

		"🚀": marks,

		"\xFF":                        marks,
		"lol":                         marks,
		"</s>":                        marks,
		"<unused49>":                  marks,
		"Thethe":                      marks,
		"x" + strings.Repeat(" ", 40): marks,

		"0":                                      data,
		"0x00, ":                                 data,
		", 0xff":                                 data,
		"0xaa, 0xaa, 0xaa,\n\t":                  data,
		strings.Repeat("-", 70) + "\n":           data,
		strings.Repeat(" ", 78) + "|\n":          data,
		strings.Repeat("A", 76) + "\n":           data,
		"ABCDEFGHIJKLMNOPQRSTUVWXYZABCD":         data,
		"KLMNOPQRSTUV, and a word, ABCDEFGHIJKL": data, // it goes on where it begins
		"<td></td>\n<td></td>\n":                 data,
		"\"\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\" + ": data,
		"{\"7\": 13, \"8\": 4711}, ":                                data,
	} {
		u := unitOf(text)
		if got := u.kind(); got != want {
			t.Errorf("%q: got kind %d, want %d", text, got, want)
		}
	}
}

func TestProse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"turn 0: i will look at the file, and then (perhaps) rewrite it. ": true,

		"nothing else is missing — it's done. ": true,

		"我需要检查这个文件，然后再次确认。": true,

		"第0次：我需要检查这个文件。": true,

		"проверка 0: прочитать ещё раз. ": true,

		"| file 0 | is | there | or is not | ": false, // structure

		"我需要{检查}这个<文件>。": false,

		"read_file_0_of_the_list_in_order_to_see_it.": false,
		"readthefileandseewhatitholds0 ":              false, // hardly a space
		"a 0, b 0, c 0, d 0, e 0, f 0, ":              false, // few letters
		"some 0 more 0 then 0 what 0 ":                false, // 57 % letters
	} {
		if u := unitOf(text); u.prose() != want {
			t.Errorf("%q: got prose %v, want %v; %v", text, !want, want, u.census)
		}
	}
}

func TestClass(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]class{
		"azAZéяאعकไ": letter,
		"09":         digit,
		"我ひガ한":       ideograph,
		" \t\r\n":    space,
		".,;:!?'\"()-\x00—…→█░，🚀«°": mark,
		"{}[]<>|=/\\_#*`~$@%^&+":    structural,
		"\x80\xBF":                  inside,
	} {
		for i := range len(text) {
			if want != inside && text[i]&0xC0 == 0x80 {
				continue // not the first byte of its character
			}
			if got := classOf[text[i]]; got != want {
				t.Errorf("byte %x at %d of %q: got class %d, want %d", text[i], i, text, got, want)
			}
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Try 12:\r\n\n\tAgain":     "try 0: again",
		"1,234.50 of 7":            "0,0.0 of 0",
		"ÄÖ Σ 你好":                  "ÄÖ Σ 你好", // letters beyond ASCII stay
		"\xFF A\xC3":               "\xFF a\xC3",
		strings.Repeat("Ab 1", 99): strings.Repeat("ab 0", 99),
	} {
		for step := 1; step <= pieceLen; step *= 2 {
			var f folder
			var piece foldedPiece
			var got []byte
			for at := 0; at < len(text); at += step {
				f.fold(&piece, []byte(text[at:min(at+step, len(text))]))
				got = append(got, piece.text[:piece.n]...)
			}
			if string(got) != want {
				t.Errorf("%q, %d bytes at a time: got %q, want %q", text, step, got, want)
			}
		}
	}
}

func TestBefore(t *testing.T) {
	t.Parallel()
	a, b, c := Signal{Offset: 1, Part: Saturation}, Signal{Offset: 2, Part: Exact}, Signal{Offset: 2, Part: Counter}
	if !a.before(&b) || b.before(&a) || !b.before(&c) || c.before(&b) || a.before(&a) {
		t.Errorf("want %+v before %+v before %+v", a, b, c)
	}
}

// hash returns the hash of a phrase.
func hash(i int) uint64 { return rand.New(rand.NewPCG(7, uint64(i))).Uint64() } // #nosec G115 -- positive

// TestPhrasesGrow keeps the counts when the table grows.
func TestPhrasesGrow(t *testing.T) {
	t.Parallel()
	var p phraseCounts
	for round := range 3 {
		for i := range 100 {
			if got := p.count(hash(i)); got != round {
				t.Fatalf("phrase %d, counted before it grows: got %d, want %d", i, got, round)
			}
		}
	}
	for i := 100; i < 300; i++ {
		p.count(hash(i))
	}
	if len(p.places) != 2*countsMin {
		t.Errorf("got %d places for 300 phrases, want %d", len(p.places), 2*countsMin)
	}
	kept := 0
	for i := range 100 {
		if p.count(hash(i)) == 3 {
			kept++
		}
	}
	if kept < 90 {
		t.Errorf("got %d counts of 100 kept, want all but the few that others push out", kept)
	}
}

// TestPhrases counts the phrases of a loop, also where a long text that
// repeated itself now and then has left no room.
func TestPhrases(t *testing.T) {
	t.Parallel()
	var p phraseCounts
	for range 5 {
		for i := range 3500 {
			p.count(hash(i))
		}
	}
	const loop = 600
	known, mistaken := 0, 0
	for round := range 15 {
		known = 0
		for i := range loop {
			if n := p.count(hash(10000 + i)); n >= 4 {
				known++
			} else if n > round {
				mistaken++
			}
		}
	}
	if known < loop*97/100 {
		t.Errorf("got %d of %d phrases counted, want 97 %%", known, loop)
	}
	// Eight tags of 10 bits, those that the longest table does not use as places.
	if mistaken > loop*4/100 {
		t.Errorf("got %d of %d phrases mistaken for others, want 4 %% at most", mistaken, loop)
	}
	if len(p.places) != countsMax {
		t.Errorf("got %d places, want %d", len(p.places), countsMax)
	}
}
