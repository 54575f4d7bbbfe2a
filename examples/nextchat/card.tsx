import type { DynamicToolUIPart, ToolUIPart } from 'ai';
import { getToolName } from 'ai';
import { useEffect, useState } from 'react';

type ToolPart = ToolUIPart | DynamicToolUIPart;
type Card = { requestedBy: string; expiresAt: string; tool: { effect: string; definition?: { description?: string } } };
type Decide = (approval: string, decision: { approved: boolean; reason?: string; digest?: string }) => Promise<string | undefined>;

/** What Countersign says about a call, beside what the AI SDK has words for. */
type Metadata = { call?: string; digest?: string; outcome?: string };

const effects: Record<string, string> = {
  read: 'only reads', idempotent: 'can be repeated without harm', keyed: 'runs once, by its key', unsafe: 'cannot be taken back',
};

const states: Record<string, [tone: string, text: string]> = {
  'input-streaming': ['busy', 'is being written'],
  'input-available': ['busy', 'runs'],
  'approval-requested': ['wait', 'waits for you'],
  'approval-responded': ['busy', 'approved, runs'],
  'output-available': ['good', 'done'],
  'output-error': ['bad', 'failed'],
  'output-denied': ['no', 'did not run'],
};

/** Shows every character: one that cannot be seen may change what an input does. */
const visible = (text: string) =>
  text.replace(/[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, c => (c === '\n' ? c : `\\u{${c.codePointAt(0)!.toString(16)}}`));

/** The exact bytes of an input, laid out only where that changes nothing but white space. */
function laidOut(bytes: string): string {
  try {
    const value: unknown = JSON.parse(bytes);
    if (JSON.stringify(value) === bytes) return JSON.stringify(value, null, 2);
  } catch { /* shown as it is */ }
  return bytes;
}

/** A value, on one line where it is short. */
function show(value: unknown): string {
  const line = JSON.stringify(value);
  return visible(typeof value === 'string' ? value : line.length < 80 ? line : JSON.stringify(value, null, 2));
}

/** The words within what an MCP server answered; other outputs are shown whole. */
function words(output: unknown): string {
  const content = (output as { content?: { type: string; text?: string }[] } | null)?.content;
  return Array.isArray(content) && content.every(c => c.type === 'text') ? visible(content.map(c => c.text).join('\n')) : show(output);
}

export function ToolCall({ part, call, decide }: { part: ToolPart; call: typeof fetch; decide: Decide }) {
  const meta = (part.toolMetadata as { countersign?: Metadata } | undefined)?.countersign;
  const asks = part.state === 'approval-requested';
  const [tone, text] = states[part.state] ?? ['busy', part.state];
  return (
    <section className={`call ${tone}`} aria-label={getToolName(part)}>
      <header>
        <i className="dot" /> <code className="tool">{visible(getToolName(part))}</code> <span className="state">{text}</span>
      </header>
      {asks ? <Question part={part} meta={meta} call={call} decide={decide} />
        : part.input !== undefined && <pre className="input">{show(part.input)}</pre>}
      {part.state === 'output-available' && <pre className="output">{words(part.output)}</pre>}
      {part.state === 'output-error' && <p className="output">{visible(part.errorText)}</p>}
      {part.approval && 'approved' in part.approval && part.approval.approved !== undefined && (
        <p className="verdict">{part.approval.approved ? 'Approved' : 'Not approved'}{part.approval.reason && `: ${visible(part.approval.reason)}`}</p>
      )}
    </section>
  );
}

/** The card: exactly what would run, and two buttons. Its answer is bound to what was shown. */
function Question({ part, meta, call, decide }: { part: ToolPart; meta?: Metadata; call: typeof fetch; decide: Decide }) {
  const approval = part.approval!.id;
  const [card, setCard] = useState<Card>();
  const [input, setInput] = useState<string>();
  const [reason, setReason] = useState('');
  const [sent, setSent] = useState(false);
  const [refused, setRefused] = useState<string>();

  useEffect(() => {
    const over = new AbortController();
    const read = async (path: string) => {
      const answer = await call(path, { signal: over.signal });
      if (!answer.ok) throw new Error('The card cannot be read.');
      return answer;
    };
    Promise.all([
      read(`/v1/approvals/${approval}`).then(a => a.json()).then(setCard),
      meta?.call && read(`/v1/calls/${meta.call}/input`).then(a => a.text()).then(setInput),
    ]).catch(error => over.signal.aborted || setRefused(String(error.message)));
    return () => over.abort();
  }, [approval, meta?.call, call]);

  const answer = async (approved: boolean) => {
    setSent(true);
    setRefused(await decide(approval, { approved, reason: reason || undefined, digest: meta?.digest }).catch(() => 'Nobody could be reached. Try again.'));
    setSent(false);
  };
  return (
    <form onSubmit={event => event.preventDefault()}>
      {card?.tool.definition?.description && <p>{visible(card.tool.definition.description)}</p>}
      <pre className="input" data-exact={input !== undefined}>{input === undefined ? show(part.input) : visible(laidOut(input))}</pre>
      <p className="facts">
        {card && <>asked for <b>{visible(card.requestedBy.replace(/^user:/, ''))}</b> · {effects[card.tool.effect]} · open
          until {new Date(card.expiresAt).toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'short' })}</>}
      </p>
      <div className="answer">
        <input value={reason} onChange={e => setReason(e.target.value)} placeholder="Why? (the model is told)" aria-label="Reason" />
        <button className="yes" disabled={sent || input === undefined} onClick={() => answer(true)}>Approve</button>
        <button className="not" disabled={sent} onClick={() => answer(false)}>Deny</button>
      </div>
      {refused && <p className="refused" role="alert">{visible(refused)}</p>}
    </form>
  );
}
