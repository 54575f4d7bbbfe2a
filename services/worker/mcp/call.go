package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/propagation"

	"github.com/countersign/countersign/pkg/egress"
	"github.com/countersign/countersign/pkg/model"
	"github.com/countersign/countersign/services/worker/tool"
)

// The keys under which a call's identity travels in the request's _meta, for
// servers that want to recognise a repeated one.
const (
	metaCall           = "countersign/call"
	metaAttempt        = "countersign/attempt"
	metaIdempotencyKey = "countersign/idempotency-key"
)

// call sends tools/call and reads its outcome.
func (s *session) call(ctx context.Context, name string, call tool.Call) model.Result {
	input := bytes.TrimSpace(call.Input)
	if len(input) == 0 || input[0] != '{' {
		return failed("The arguments of an MCP tool must be a JSON object. The tool did not run.")
	}
	meta := sdk.Meta{metaCall: string(call.ID), metaAttempt: call.Attempt, metaIdempotencyKey: call.IdempotencyKey}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for key, value := range carrier {
		meta[key] = value
	}
	f := &flight{}
	_, err := s.client.CallTool(f.attach(ctx), &sdk.CallToolParams{Meta: meta, Name: name, Arguments: json.RawMessage(input)})
	return f.outcome(ctx, err)
}

// outcome is the rule of the package comment. The raw answer counts before
// the SDK's opinion of it: what was answered was done, and an error that the
// SDK made up itself (it does when a stream ends) was not answered by anybody.
func (f *flight) outcome(ctx context.Context, err error) model.Result {
	raw, status, refused := f.land()
	switch {
	case refused != nil:
		return refusal(refused, status)
	case raw != nil:
		return readResult(raw)
	case !f.sent() && errors.Is(err, egress.ErrRefused):
		return failed(tool.Text([]byte(err.Error())) + " The tool did not run.")
	case !f.sent():
		return nothingSent("The call could not be sent: " + describe(ctx, err))
	case errors.Is(err, sdk.ErrSessionMissing):
		return unknown("The server does not know the session any more.")
	case definite(status):
		return failed(fmt.Sprintf("The server answered %d %s: %s", status, http.StatusText(status), describe(ctx, err)))
	}
	return unknown("The call was sent and no answer came: " + describe(ctx, err))
}

// definite tells whether an HTTP status says that the request was refused.
func definite(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status < 500
}

// refusing are the JSON-RPC errors by which a server says that it did not
// take the request; any other may come from within the tool.
var refusing = []int64{
	jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams,
}

func refusal(err error, status int) model.Result {
	wire, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok {
		return unknown("The server answered with an error: " + tool.Text([]byte(err.Error())))
	}
	text := tool.Text([]byte(wire.Message))
	if text == "" {
		text = fmt.Sprintf("The server answered with the error %d.", wire.Code)
	}
	if slices.Contains(refusing, wire.Code) || definite(status) {
		return failed(text)
	}
	return unknown(fmt.Sprintf("The server answered with the error %d, which does not say whether it was done: %s", wire.Code, text))
}

// readResult turns a tool's result into an outcome. The output is
// {"content": […], "structuredContent": …} as the server wrote them.
func readResult(raw json.RawMessage) model.Result {
	fields := map[string]json.RawMessage{} // exact keys: structs fold case
	if err := json.Unmarshal(raw, &fields); err != nil {
		return succeeded(tool.Output(raw))
	}
	if string(fields["isError"]) == "true" {
		return failed(errorText(fields["content"]))
	}
	if len(fields["inputRequests"]) > 0 && string(fields["inputRequests"]) != "null" {
		return failed("The tool asked for more input, which cannot be given to it here.")
	}
	var b bytes.Buffer
	b.WriteString(`{"content":`)
	if content := fields["content"]; content != nil {
		b.Write(content)
	} else {
		b.WriteString("[]")
	}
	if structured := fields["structuredContent"]; structured != nil {
		b.WriteString(`,"structuredContent":`)
		b.Write(structured)
	}
	b.WriteByte('}')
	return succeeded(tool.Output(b.Bytes()))
}

// errorText joins the text blocks of an error's content; content of other
// kinds is shown as it is.
func errorText(content json.RawMessage) string {
	var blocks []struct {
		Text string `json:"text"`
	}
	var texts []string
	if json.Unmarshal(content, &blocks) == nil {
		for _, block := range blocks {
			if block.Text != "" {
				texts = append(texts, block.Text)
			}
		}
	}
	if text := tool.Text([]byte(strings.Join(texts, "\n"))); text != "" {
		return text
	}
	if len(content) > 0 && string(content) != "[]" && string(content) != "null" {
		return tool.Text(content)
	}
	return "The tool reported an error and did not say which."
}

// describe words what went wrong on the way.
func describe(ctx context.Context, err error) string {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "the time for the tool ran out."
	case ctx.Err() != nil:
		return "the attempt was cancelled."
	case err == nil:
		return "the answer could not be read."
	}
	return tool.Text([]byte(err.Error()))
}

func succeeded(output []byte) model.Result {
	return model.Result{Kind: model.ResultSucceeded, Output: output}
}

func failed(text string) model.Result {
	return model.Result{Kind: model.ResultFailed, Text: text}
}

func unknown(reason string) model.Result {
	return model.Result{Kind: model.ResultUnknown, Text: reason}
}

func nothingSent(reason string) model.Result {
	return model.Result{Kind: model.ResultNothingSent, Text: reason}
}
