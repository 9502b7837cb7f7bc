package config

import (
	"cmp"
	"slices"
)

// nearest returns the word of a list that takes the fewest changes.
func nearest(word string, list []string) string {
	return slices.MinFunc(list, func(a, b string) int {
		return cmp.Compare(distance(word, a), distance(word, b))
	})
}

// distance is how many characters have to be put in, taken out or changed to
// make one word of another (Levenshtein's).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
