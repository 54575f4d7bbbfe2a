import type { UIMessage, UseChatHelpers } from '@ai-sdk/react';
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { useEffect, useRef } from 'react';

/**
 * Keeps a chat as its topic is, whoever changes it. Messages that changed replace its own, but for the one that
 * streams here; where an answer is made it resumes the stream. `call` is a fetch that brings the person's token.
 */
export function useCountersign<M extends UIMessage>(chat: UseChatHelpers<M>, call: typeof fetch) {
  const { id, status, error, messages, setMessages, resumeStream, clearError } = chat;
  const known = useRef<Record<string, number>>({}); // a topic's version that was told last
  const others = useRef(new WeakSet<M>()); // what is none of them streams here
  const busy = status === 'submitted' || status === 'streaming';
  if (!busy) messages.forEach(m => others.current.add(m));

  useEffect(() => {
    const over = new AbortController();
    let resuming = false;
    const put = (message: M) => setMessages(all => {
      const own = all.find(m => m.id === message.id);
      if (busy && own && !others.current.has(own)) return all;
      others.current.add(message);
      return own ? all.map(m => (m === own ? message : m)) : [...all, message];
    });
    const settle = (topic: { version: number; status: string; activeExecutions: string[] }) => {
      if (!busy) known.current[id] = topic.version; // else all of it once more when the stream is over
      const active = topic.activeExecutions.length > 0 || ['streaming', 'pending'].includes(topic.status);
      if (!active && error instanceof TypeError) clearError(); // the connection was lost, and nothing is missed
      if (busy || resuming || !active) return;
      resuming = true;
      void resumeStream().finally(() => { resuming = false; });
    };
    const follow = async () => {
      const headers = { 'Last-Event-ID': String((known.current[id] ?? 1) - 1) }; // once more, for a first status
      const answer = await call(`/v1/topics/${encodeURIComponent(id)}/events`, { headers, signal: over.signal });
      if (!answer.ok || !answer.body) return; // such as a topic that nobody has written to yet
      const events = answer.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream()).getReader();
      for (let next = await events.read(); !next.done && !over.signal.aborted; next = await events.read()) {
        if (next.value.event === 'message') put(JSON.parse(next.value.data));
        if (next.value.event === 'status') settle(JSON.parse(next.value.data));
      }
    };
    void (async () => {
      for (let wait = error ? 500 : 0; !over.signal.aborted; wait = 1000) {
        await new Promise(resolve => setTimeout(resolve, wait));
        if (!over.signal.aborted) await follow().catch(() => {}); // cut off: again, from where it was
      }
    })();
    return () => over.abort();
  }, [id, busy, error, call, setMessages, resumeStream, clearError]);

  /** Answers a card at once, for every window. It gives what stands in the way, if something does. */
  const decide = async (approval: string, decision: { approved: boolean; reason?: string; digest?: string }) => {
    const answer = await call(`/v1/approvals/${encodeURIComponent(approval)}/decision`,
      { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(decision) });
    return answer.ok ? undefined : (await answer.json()).detail as string;
  };
  return { decide };
}
