import type { UIMessage, UseChatHelpers } from '@ai-sdk/react';
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { useEffect, useRef } from 'react';

type Topic = { version: number; status: string; activeExecutions: string[] };
type Decision = { approved: boolean; reason?: string; digest?: string };

/**
 * Keeps a chat as its topic is, whoever changes it: other windows, people
 * elsewhere, tools that end. While nothing streams here it follows the topic's
 * events: messages that changed replace the chat's own, and where an answer is
 * being made the chat resumes its stream. `call` is a fetch that brings the
 * person's token.
 */
export function useCountersign<M extends UIMessage>(chat: UseChatHelpers<M>, call: typeof fetch) {
  const { id, status, setMessages, resumeStream } = chat;
  const known = useRef<Record<string, number>>({}); // a topic's version that was told last

  useEffect(() => {
    if (status !== 'ready' && status !== 'error') return; // the chat's own stream tells everything
    const over = new AbortController();
    let resuming = false;
    const put = (message: M) => setMessages(all =>
      all.some(m => m.id === message.id) ? all.map(m => (m.id === message.id ? message : m)) : [...all, message]);
    const settle = (topic: Topic) => {
      known.current[id] = topic.version;
      const active = topic.activeExecutions.length > 0 || ['streaming', 'pending'].includes(topic.status);
      if (!active || resuming) return;
      resuming = true;
      void resumeStream().finally(() => { resuming = false; });
    };
    const follow = async () => {
      // The last version once more, so that there is always a first status.
      const headers = { 'Last-Event-ID': String((known.current[id] ?? 1) - 1) };
      const answer = await call(`/v1/topics/${encodeURIComponent(id)}/events`, { headers, signal: over.signal });
      if (!answer.ok || !answer.body) return; // such as a topic that nobody has written to yet
      const events = answer.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream()).getReader();
      for (let next = await events.read(); !next.done && !over.signal.aborted; next = await events.read()) {
        if (next.value.event === 'message') put(JSON.parse(next.value.data));
        if (next.value.event === 'status') settle(JSON.parse(next.value.data));
      }
    };
    void (async () => {
      for (let wait = status === 'error' ? 500 : 0; !over.signal.aborted; wait = 1000) {
        await new Promise(resolve => setTimeout(resolve, wait));
        if (!over.signal.aborted) await follow().catch(() => {}); // cut off: again, from where it was
      }
    })();
    return () => over.abort();
  }, [id, status, call, setMessages, resumeStream]);

  /** Answers a card at once, for every window. It gives what stands in the way, if something does. */
  const decide = async (approval: string, decision: Decision): Promise<string | undefined> => {
    const answer = await call(`/v1/approvals/${encodeURIComponent(approval)}/decision`,
      { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(decision) });
    return answer.ok ? undefined : (await answer.json()).detail;
  };
  return { decide };
}
