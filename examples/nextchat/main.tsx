import { useChat, type UIMessage } from '@ai-sdk/react';
import { DefaultChatTransport, isToolUIPart } from 'ai';
import { useEffect, useRef, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { ToolCall } from './card';
import './page.css';
import { connect, person, topic } from './session';
import { useCountersign } from './useCountersign';

/** Whom a message is of; the example's chat backend answers what says where it was written. */
type Said = UIMessage<{ writtenOn?: string; person?: string }>;

const call = connect();
const transport = new DefaultChatTransport<Said>({ api: '/api/chat?sdk=7', fetch: call });

function App() {
  const chat = useChat<Said>({ id: topic, transport });
  const { decide } = useCountersign(chat, call);
  const busy = chat.status === 'submitted' || chat.status === 'streaming';
  const waits = chat.messages.some(m => m.parts.some(p => isToolUIPart(p) && p.state === 'approval-requested'));
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => { end.current?.scrollIntoView({ block: 'end' }); }, [chat.messages, chat.status]);
  return (
    <>
      <header className="bar">
        <svg className="logo" viewBox="0 0 24 24" aria-hidden="true"><rect width="24" height="24" rx="7" /><path d="m7 12.5 3.4 3.4L17 8.8" /></svg>
        <h1>{topic}</h1>
        <span className={`status ${busy ? 'busy' : waits ? 'wait' : 'good'}`}><i className="dot" /> {busy ? 'answering' : waits ? 'waits for you' : 'ready'}</span>
        <span className="who">{person}</span>
      </header>
      <main>
        {chat.messages.length === 0 && <Empty />}
        {chat.messages.map(m => (
          <article key={m.id} className={m.role}>
            {m.role === 'user' && <h2>{m.metadata?.person ?? 'somebody'}</h2>}
            {m.parts.map((part, i) => part.type === 'text' ? <p key={i} className="text">{part.text}</p>
              : isToolUIPart(part) ? <ToolCall key={part.toolCallId} part={part} call={call} decide={decide} /> : null)}
          </article>
        ))}
        {busy && <p className="typing" aria-label="The model is answering"><i /><i /><i /></p>}
        {chat.status === 'error' && <p className="refused" role="status">The connection was lost; it is being mended.</p>}
        <div ref={end} className="end" />
      </main>
      <Composer send={text => chat.sendMessage({ text, metadata: { writtenOn: 'nextchat', person } })} busy={busy} />
    </>
  );
}

function Empty() {
  return <div className="empty"><h2>Ask for something</h2><p>Such as <q>Please clean up the old logs</q>. What only reads runs by itself; what does not stops at a card.</p></div>;
}

function Composer({ send, busy }: { send: (text: string) => void; busy: boolean }) {
  const [text, setText] = useState('');
  return (
    <form className="composer" onSubmit={event => { event.preventDefault(); if (text.trim() && !busy) { send(text.trim()); setText(''); } }}>
      <input value={text} onChange={e => setText(e.target.value)} placeholder="Write a message" aria-label="Message" autoFocus />
      <button disabled={busy || !text.trim()}>Send</button>
    </form>
  );
}

createRoot(document.getElementById('root')!).render(<App />);
