package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-786ebc8c/holdfast/engine/fence"
)

// A listener notes whether a statement was sent.
type listener struct{ sent bool }

func (l *listener) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	l.sent = true
	return result(1), nil
}

const given = int64(1_790_000_000_000_007)

func send(statement string, args ...any) (sent bool, err error) {
	var l listener
	err = fence.Update(context.Background(), &l, given, statement, args...)
	return l.sent, err
}

func TestUpdateReadsStatementsOfEveryDialect(t *testing.T) {
	for statement, args := range map[string][]any{
		`UPDATE account SET balance = ?, fence = ? WHERE id = ? AND fence <= ?`:                                                {1, given, 42, given},
		`update account set fence=?, balance=? where fence<=? and id=?;`:                                                       {given, 1, given, 42},
		`UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2`:                                            {1, given, 42},
		`UPDATE account SET balance = $1, fence = $2::bigint WHERE id = $3 AND fence <= $2::bigint`:                            {1, given, 42},
		`UPDATE account SET balance = ?1, fence = ?2 WHERE ?2 >= fence AND id = ?3`:                                            {1, given, 42},
		`UPDATE "a"."account" SET "Fence" = $1 WHERE account.fence <= $1 RETURNING balance`:                                    {given},
		"UPDATE `account` SET `fence` = ? WHERE id = ? AND `fence` <= ? LIMIT 1":                                               {given, 42, given},
		`UPDATE account SET [fence] = @token WHERE id = @id AND [fence] <= @token`:                                             {sql.Named("token", given), sql.Named("id", 42)},
		`UPDATE account SET fence = :token WHERE id = :id AND fence <= :token`:                                                 {sql.Named("id", 42), sql.Named("token", given)},
		`UPDATE account SET fence = $1 WHERE id = $2 AND COALESCE(fence, 0) <= $1`:                                             {given, 42},
		`UPDATE account SET fence = $1 WHERE (fence IS NULL OR fence <= $1) AND id = $2`:                                       {given, 42},
		`UPDATE account a SET fence = $1 WHERE id = $2 AND ((($1 >= a.fence OR a.fence IS NULL)))`:                             {given, 42},
		`UPDATE ONLY s.account AS a SET fence = $1 WHERE id = $2 AND COALESCE(s.a.fence, 0) <= $1`:                             {given, 42},
		`UPDATE account SET fence = $1 WHERE (id BETWEEN 1 AND 9) AND account.fence <= $1`:                                     {given},
		"UPDATE owner o, account a SET a.fence = ? WHERE o.id = a.owner AND a.fence <= ?":                                      {given, given},
		`INSERT INTO s.account AS a (id, fence) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET fence = $2 WHERE a.fence <= $2`: {42, given},
		`UPDATE account a SET fence = $1 FROM owner o WHERE o.id = a.owner AND a.fence <= $1`:                                  {given},
		"UPDATE account -- WHERE fence <= ?\n SET note = 'it''s ? AND', fence = ? WHERE fence /* ? */ <= ?":                    {given, given},
		`UPDATE account SET fence = ?, at = now() WHERE fence <= ?`:                                                            {sql.NullInt64{Int64: given, Valid: true}, int(given)},
		`UPDATE account SET fence = ? WHERE id IN (SELECT id FROM x WHERE a = 1 OR b = 2) AND fence <= ?`:                      {given, uint64(given)},
		`INSERT INTO account (id, fence) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET fence = $2 WHERE account.fence <= $2`:  {42, given},
		`INSERT INTO account (id, fence) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET fence = excluded.fence
			WHERE account.fence <= EXCLUDED.fence`: {42, given},
	} {
		sent, err := send(statement, args...)
		require.NoError(t, err, statement)
		require.True(t, sent)
	}
}

func TestUpdateRefusesByNameWhatDoesNotFence(t *testing.T) {
	for statement, tc := range map[string]struct {
		want string
		args []any
	}{
		`UPDATE account SET fence = $1 WHERE fence >= $1`:                      {"it compares fence >= token, and must compare fence <= token", []any{given}},
		`UPDATE account SET fence = $1 WHERE $1 <= fence`:                      {"it compares token <= fence, and must compare token >= fence", []any{given}},
		`UPDATE account SET fence = $1 WHERE fence < $1`:                       {"it compares fence < token", []any{given}},
		`UPDATE account SET fence = $1 WHERE fence = $1`:                       {"it compares fence = token", []any{given}},
		`UPDATE account SET fence = $1 WHERE fence <> $1`:                      {"it compares fence <> token", []any{given}},
		`UPDATE account SET fence = $1 WHERE NOT fence <= $1`:                  {"the WHERE does not compare fence", []any{given}},
		`UPDATE account SET fence = $1 WHERE fence + 1 <= $1`:                  {"the WHERE does not compare fence", []any{given}},
		`UPDATE account SET fence = $1 WHERE id = $2 OR fence <= $1`:           {"an OR", []any{given, 42}},
		`UPDATE account SET fence = $1 WHERE (id = $2 OR fence <= $1)`:         {"the WHERE does not compare fence", []any{given, 42}},
		`UPDATE account SET fence = $1 WHERE other <= $1`:                      {"the WHERE does not compare fence", []any{given}},
		`UPDATE account SET fence = $1 WHERE fence <= $2`:                      {"the WHERE does not compare fence", []any{given, given + 1}},
		`UPDATE account SET fence = $1 WHERE note = 'fence <= $1'`:             {"the WHERE does not compare fence", []any{given}},
		`UPDATE account SET fence = $1`:                                        {"no WHERE", []any{given}},
		`UPDATE account SET balance = $1 WHERE fence <= $2`:                    {"no column is set to the token", []any{1, given}},
		`UPDATE account SET fence = fence WHERE fence <= $1`:                   {"no column is set to the token", []any{given}},
		`UPDATE account SET fence = $2 WHERE fence <= $2`:                      {"no column is set to the token", []any{given}},
		`UPDATE account SET fence = :other WHERE fence <= :token`:              {"no column is set to the token", []any{sql.Named("token", given)}},
		`DELETE FROM account WHERE fence <= $1`:                                {"neither an UPDATE nor an INSERT", []any{given}},
		`REPLACE INTO account (id, fence) VALUES (?, ?)`:                       {"neither an UPDATE nor an INSERT", []any{42, given}},
		`INSERT INTO account (id, fence) VALUES (?, ?)`:                        {"neither an UPDATE nor an INSERT", []any{42, given}},
		`WITH x AS (SELECT 1) UPDATE account SET fence = $1 WHERE fence <= $1`: {"neither an UPDATE nor an INSERT", []any{given}},
		`INSERT INTO account (id, fence) VALUES (?, ?) ON DUPLICATE KEY UPDATE fence = VALUES(fence)`: {
			"ON DUPLICATE KEY UPDATE has no WHERE", []any{42, given},
		},
		`INSERT INTO account (id, fence) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET fence = excluded.fence`: {"no WHERE", []any{42, given}},
		`INSERT INTO account (id, fence) VALUES ($1, 5) ON CONFLICT (id) DO UPDATE SET fence = excluded.fence
			WHERE account.fence <= excluded.fence`: {"no column is set to the token", []any{42}},
		`INSERT INTO account (id, fence) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET fence = excluded.fence
			WHERE account.fence <= excluded.id`: {"the WHERE does not compare fence", []any{42, given}},
		`INSERT INTO account (fence, id) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET fence = excluded.fence
			WHERE account.fence <= excluded.fence`: {"no column is set to the token", []any{42, given}},
		`INSERT INTO account (id, fence) VALUES ($1, $2), (7, 9) ON CONFLICT (id) DO UPDATE SET fence = excluded.fence
			WHERE account.fence <= excluded.fence`: {"no column is set to the token", []any{42, given}},
		`UPDATE account SET fence = excluded.fence WHERE fence <= excluded.fence`:                    {"no column is set to the token", []any{given}},
		`UPDATE account SET fence = ? WHERE id = ? || fence <= ?`:                                    {"an OR", []any{given, 42, given}},
		`UPDATE account SET fence = ? WHERE id = ? XOR fence <= ?`:                                   {"an OR", []any{given, 42, given}},
		`UPDATE account SET fence = ? WHERE CASE WHEN id = ? AND fence <= ? AND 1 THEN 1 ELSE 1 END`: {"an OR", []any{given, 42, given}},
		`UPDATE account SET fence = $1 WHERE fence <= $1; DELETE FROM account`:                       {"several statements", []any{given}},
		`UPDATE account SET fence = ? FROM session s WHERE account.id = s.id AND s.fence <= ?`:       {"the WHERE does not compare fence", []any{given, given}},
		`UPDATE account a, session s SET a.fence = ? WHERE a.id = ? AND s.fence <= ?`:                {"the WHERE does not compare fence", []any{given, 42, given}},
		`UPDATE account a, session s SET a.fence = ? WHERE a.id = ? AND COALESCE(s.fence, 0) <= ?`:   {"the WHERE does not compare fence", []any{given, 42, given}},
		`UPDATE account a, session s SET s.fence = ? WHERE a.id = ? AND a.fence <= ?`:                {"the WHERE does not compare fence", []any{given, 42, given}},
		`UPDATE account SET fence = ? WHERE id = ? AND (other.fence IS NULL OR fence <= ?)`:          {"the WHERE does not compare fence", []any{given, 42, given}},
		`UPDATE account SET fence = ? WHERE id NOT BETWEEN 0 AND fence <= ?`:                         {"a BETWEEN", []any{given, given}},
		`UPDATE account SET fence = ?, fence = 0 WHERE id = ? AND fence <= ?`:                        {"fence is set 2 times", []any{given, 42, given}},
		`UPDATE OR REPLACE account SET fence = ? WHERE fence <= ?`:                                   {"UPDATE OR …", []any{given, given}},
		"UPDATE account SET fence = ? WHERE id = ? AND fence <= ? /*! OR 1=1 */":                     {"a comment that is run", []any{given, 42, given}},
		"UPDATE account SET fence = ? WHERE id = ? /* /* */ AND fence <= ? AND 1 = 1 */":             {"a comment that is run, or one in another", []any{given, 42, given}},
		"UPDATE account SET fence = ? WHERE fence <= ? --1 OR 1=1":                                   {"-- without a blank", []any{given, given}},
		"UPDATE account SET fence = ? WHERE id = ? # AND fence <= ?":                                 {"#, which begins a comment", []any{given, 42, given}},
		`UPDATE account SET note = 'x\' WHERE fence <= ? AND y=''', fence = ? WHERE id = ?`:          {"a backslash", []any{given, given, 42}},
		`UPDATE account SET fence = $1 WHERE note = $$ AND fence <= $1 AND note = $$`:                {"a text in dollar signs", []any{given}},
		`UPDATE account SET fence = $1 WHERE note = $a$ AND fence <= $1 AND note = $a$`:              {"a text in dollar signs", []any{given}},
		`INSERT OR REPLACE INTO account (id, fence) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET fence = excluded.fence
			WHERE account.fence <= excluded.fence`: {"INSERT OR …", []any{42, given}},
		`INSERT INTO account (id, fence) VALUES ($1, $2) ON CONFLICT (x) DO UPDATE SET balance = 1
			ON CONFLICT (id) DO UPDATE SET fence = excluded.fence WHERE account.fence <= excluded.fence`: {"several ON CONFLICT", []any{42, given}},
		`INSERT INTO account (id, fence) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET fence = excluded.fence
			WHERE account.fence <= excluded.fence ON CONFLICT DO UPDATE SET balance = 1`: {"several ON CONFLICT", []any{42, given}},
		`INSERT INTO account (id, fence) VALUES ($1, $2) ON CONFLICT (x) DO NOTHING ON CONFLICT (id) DO UPDATE
			SET fence = excluded.fence WHERE account.fence <= excluded.fence`: {"several ON CONFLICT", []any{42, given}},
		`INSERT INTO account (id, fence) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET fence = excluded.fence
			WHERE excluded.fence <= excluded.fence`: {"the WHERE does not compare fence", []any{42, given}},
		`UPDATE account`: {"no SET", nil},
		``:               {"neither an UPDATE nor an INSERT", nil},
	} {
		sent, err := send(statement, tc.args...)
		require.ErrorContains(t, err, "fence: the statement does not fence: "+tc.want, statement)
		require.False(t, sent, statement)
		require.False(t, errors.Is(err, fence.ErrStale))
	}
}

// Whatever somebody writes, it is refused or sent, and nothing else.
func FuzzUpdateReadsAnything(f *testing.F) {
	f.Add(`UPDATE a SET f = ? WHERE f <= ?`)
	f.Add(`(((;)))`)
	f.Add(`update set where or (`)
	f.Add("UPDATE a SET ?99999999999999999999 = $0 WHERE COALESCE(,0)<=:: is null")
	f.Fuzz(func(t *testing.T, statement string) {
		sent, err := send(statement, given, given)
		if sent != (err == nil) {
			t.Errorf("%q: sent %v, and %v", statement, sent, err)
		}
	})
}
