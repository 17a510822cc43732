package witness
import ("testing";"os";"path/filepath";"fmt")
func TestX(t *testing.T){
 fmt.Println(stat(os.Getpid()))
 fmt.Println(alive(os.Getpid(), startOf(os.Getpid())))
 p:=filepath.Join(t.TempDir(),"w")
 a,err:=Open(p,Options{Keys:1,FallbackPrefix:"x"}); fmt.Println(err, a.index)
 b,err:=Open(p,Options{Keys:1,FallbackPrefix:"x"}); fmt.Println(err, b.index)
}
