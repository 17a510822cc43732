package slot

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAGroupAndItsValuesAreOneTextAndTwo(t *testing.T) {
	for _, group := range []string{"g", "a{t}", "x=y", ""} {
		got, values := CutGroup(GroupOf(group, "values"))
		require.Equal(t, [2]string{group, "values"}, [2]string{got, values})
		require.Equal(t, LockChannel(group), GroupChannel(GroupOf(group, "values")))
	}
	group, values := CutGroup("a name")
	require.Equal(t, [2]string{"a name", ""}, [2]string{group, values})
}
