package ledger_test

import (
	"context"
	"fmt"

	"github.com/doomproxy/doomproxy/ledger"
)

func Example() {
	ctx := context.Background()
	var store ledger.Store = ledger.NewMemory(ledger.Options{})
	defer store.Close()

	// An attempt was discarded, the next one accepted.
	err := store.Set(ctx, map[ledger.Key]string{
		ledger.ItemID("rs_68af4030592c81938ec0a5fbab4a3e9f"):                                                "",
		ledger.Sealed("gAAAAABor5Aw…"):                                                                      "",
		ledger.Text("I read the file. I read the file. I read the file. I read the file. I read the file."): "",
		ledger.Alias("resp_seen"):                                                                           "resp_accepted",
	})
	if err != nil {
		fmt.Println(err)
	}

	// Later a client sends the text back, without its id, and some of its own.
	loop := ledger.Text("I read the file.\nI read the file.\nI read the file.\nI read the file.\nI read the file.\n")
	short := ledger.Text("Thinking…") // stands for nothing, and is never found
	previous := ledger.Alias("resp_seen")
	found, err := store.Get(ctx, []ledger.Key{loop, short, previous, ledger.ItemID("rs_68af4030592c81938ec0a5fbab4a0000")})
	if err != nil {
		fmt.Println(err)
	}
	_, drop := found[loop]
	fmt.Println(len(found), drop, found[previous])
	// Output: 2 true resp_accepted
}
