package ledger_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childTask names what the test binary does when a test starts it again as
// another process.
const childTask = "DOOMPROXY_LEDGER_TEST_CHILD"

func TestMain(m *testing.M) {
	if task := os.Getenv(childTask); task != "" {
		child(task)
	}
	goleak.VerifyTestMain(m)
}
