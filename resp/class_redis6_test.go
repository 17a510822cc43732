package resp

import "testing"

func TestClassesOfRedis5And6PcallErrors(t *testing.T) {
	for text, want := range map[string]Class{
		"@user_script: 45: -READONLY You can't write against a read only replica.":                                                 ClassReadOnly,
		"@user_script: 45: -MISCONF Redis is configured to save RDB snapshots, but it is currently not able":                       ClassMisconf,
		"@user_script: 45: The user executing the script can't run this command or subcommand":                                     ClassNoPerm,
		"@user_script: 45: The user executing the script can't access at least one of the keys mentioned in the command arguments": ClassNoPerm,
		"@user_script: 45: OOM command not allowed when used memory > 'maxmemory'.":                                                ClassOOM,
		"User default has no permissions to access one of the keys used as arguments":                                              ClassNoPerm,
	} {
		if got := classOfReply(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
