package scripted

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Obedient is a model that calls the tool that it is told to call, and says
// what came of it: "delete_file {"path": "old.log"}".
func Obedient(r Request) Answer {
	last := r.Last()
	if last.Role == "tool" {
		return Stream(Say("The tool's answer is: "+last.Text()), End("stop"))
	}
	told := strings.TrimSpace(last.Text())
	for _, t := range r.Tools {
		name := t.Function.Name
		_, arguments, found := strings.Cut(told, name)
		if !found {
			continue
		}
		if arguments = strings.TrimSpace(arguments); !json.Valid([]byte(arguments)) {
			arguments = "{}"
		}
		return Stream(Say("I will use "+name+"."), Call(0, fmt.Sprintf("call_%d", r.N), name, arguments), End("tool_calls"))
	}
	names := make([]string, len(r.Tools))
	for i, t := range r.Tools {
		names[i] = t.Function.Name
	}
	return Stream(Say("Name a tool and its arguments, such as: "+strings.Join(names, " {}, ")+" {}"), End("stop"))
}
