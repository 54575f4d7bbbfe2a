// The published clients of the AI SDK, driven through whole conversations.
// In: {"version", "nodes": [url], "key", "backend": url}. Out: a line of JSON
// per scenario: {"name", "topic", "error"?}.
import assert from "node:assert/strict";

const { version, nodes, key, backend, only } = JSON.parse(process.argv[1]);
const ai = await import(`ai${version}`);
const { Chat } = await import(`react${version}`);

const deadline = 60_000;
const pause = () => new Promise((r) => setTimeout(r, 10));
async function until(what, holds) {
  for (const end = Date.now() + deadline; !holds(); await pause())
    if (Date.now() > end) throw new Error(`${what} did not come`);
}

const headers = { authorization: `Bearer ${key}` };
const call = async (url, options) => {
  const response = await fetch(url, { ...options, headers: { ...headers, "content-type": "application/json" } });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return response.json();
};
const history = async (topic) => (await call(`${nodes[0]}/v1/topics/${topic}/messages`)).items;
const card = (id) => call(`${nodes[0]}/v1/approvals/${id}`);
const release = (topic) => call(`${backend}/release/${topic}`, { method: "POST" });

// A window of a conversation on a node, as its page would make one.
function open(topic, { node = 0, messages = [], cut } = {}) {
  const posts = [];
  const transport = new ai.DefaultChatTransport({
    api: `${nodes[node]}/api/chat` + (version === 7 ? "?sdk=7" : ""),
    headers,
    fetch: async (url, options) => {
      if (options.method !== "POST") return fetch(url, options);
      posts.push(JSON.parse(options.body));
      const response = await fetch(url, options);
      return posts.length === cut ? cutOff(response) : response;
    },
  });
  const chat = new Chat({
    id: topic, messages, transport,
    sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses,
    onError: () => {},
  });
  return Object.assign(chat, { posts });
}

// A response whose connection is lost after its first chunk.
function cutOff(response) {
  const reader = response.body.getReader();
  let begun = false;
  const body = new ReadableStream({
    async pull(controller) {
      const { value, done } = await reader.read();
      if (begun || done) {
        await reader.cancel();
        controller.error(new TypeError("terminated"));
        return;
      }
      begun = new TextDecoder().decode(value).includes("data:");
      controller.enqueue(value);
    },
  });
  return new Response(body, { status: response.status, headers: response.headers });
}

const parts = (chat) => chat.messages.at(-1)?.role === "assistant" ? chat.messages.at(-1).parts : [];
const tools = (chat) => parts(chat).filter((p) => p.toolCallId);
const asked = (chat) => tools(chat).filter((p) => p.state === "approval-requested");
const said = (chat) => parts(chat).filter((p) => p.type === "text").map((p) => p.text).join("");
const settled = (chat) => chat.status === "ready" && said(chat).includes("Done");
const answer = (chat, part, approved, reason) => chat.addToolApprovalResponse({ id: part.approval.id, approved, reason });

// What a window shows is what is committed, and a page that is loaded anew can
// take it.
const shape = (messages) => messages.map((m) => [m.id, m.role,
  m.parts.filter((p) => p.type !== "step-start").map((p) => p.toolCallId ? [p.toolCallId, p.state, p.input, p.output ?? p.errorText] : p.text)]);
async function same(topic, ...chats) {
  const rows = await history(topic);
  await ai.validateUIMessages({ messages: rows });
  for (const chat of chats) {
    assert.deepEqual(shape(chat.messages), shape(rows), "the window and the rows differ");
    if (version === 7) await ai.validateUIMessages({ messages: chat.messages });
  }
  return rows;
}

async function ask(chat, text = "one", cards = 1) {
  await chat.sendMessage({ text });
  await until("the cards", () => asked(chat).length === cards && chat.status === "ready");
}

const scenarios = {
  async approve(topic) {
    const chat = open(topic);
    await ask(chat);
    await answer(chat, asked(chat)[0], true, "looks fine");
    await until("the answer", () => settled(chat));
    assert.equal(chat.posts.length, 2);
    assert.equal(tools(chat)[0].state, "output-available");
    await same(topic, chat);
  },

  async deny(topic) {
    const chat = open(topic);
    await ask(chat);
    await answer(chat, asked(chat)[0], false, "no!");
    await until("the answer", () => settled(chat));
    assert.equal(chat.posts.length, 2);
    assert.deepEqual(tools(chat).map((p) => [p.state, p.approval.approved, p.approval.reason]), [["output-denied", false, "no!"]]);
    await same(topic, chat);
  },

  async "two-in-order"(topic) {
    const chat = open(topic);
    await ask(chat, "two", 2);
    const [first, second] = asked(chat);
    await answer(chat, second, false);
    assert.equal(chat.posts.length, 1);
    await answer(chat, first, true);
    await until("the answer", () => settled(chat));
    assert.equal(chat.posts.length, 2);
    assert.deepEqual(tools(chat).map((p) => p.state), ["output-available", "output-denied"]);
    await same(topic, chat);
  },

  async "two-at-once"(topic) {
    const chat = open(topic);
    await ask(chat, "two", 2);
    await Promise.all(asked(chat).map((p) => answer(chat, p, true)));
    await until("the answer", () => settled(chat));
    assert.equal(chat.posts.length, 2);
    await same(topic, chat);
  },

  async "while-streaming"(topic) {
    const chat = open(topic);
    const sent = chat.sendMessage({ text: "hold" });
    await until("the card", () => asked(chat).length === 1);
    assert.equal(chat.status, "streaming");
    await answer(chat, asked(chat)[0], true);
    assert.equal(chat.posts.length, 1);
    await release(topic);
    await sent;
    await until("the answer", () => settled(chat));
    assert.equal(chat.posts.length, 2);
    await same(topic, chat);
  },

  async reload(topic) {
    const before = open(topic);
    await ask(before);
    const chat = open(topic, { node: 1, messages: await history(topic) });
    await chat.resumeStream();
    assert.equal(chat.status, "ready");
    await answer(chat, asked(chat)[0], true);
    await until("the answer", () => settled(chat));
    assert.equal(chat.posts.length, 1);
    await same(topic, chat);
  },

  async "resume-while-streaming"(topic) {
    const before = open(topic);
    before.sendMessage({ text: "hold" });
    await until("the card", () => asked(before).length === 1);
    const chat = open(topic, { node: 1, messages: await history(topic) });
    const resumed = chat.resumeStream();
    await until("the card in the other window", () => asked(chat).length === 1);
    await release(topic);
    await resumed;
    await until("the end", () => before.status === "ready" && chat.status === "ready");
    await answer(chat, asked(chat)[0], true);
    await until("the answer", () => settled(chat));
    await same(topic, chat);
    const again = open(topic, { messages: await history(topic) });
    await again.resumeStream();
    await same(topic, again);
  },

  async "dropped-continuation"(topic) {
    const chat = open(topic, { cut: 2 });
    await ask(chat, "late");
    await answer(chat, asked(chat)[0], true);
    await until("the cut", () => chat.status === "error");
    assert.equal(chat.posts.length, 2);
    const resumed = chat.resumeStream();
    await release(topic);
    await resumed;
    await until("the answer", () => settled(chat));
    assert.equal(chat.posts.length, 2);
    await same(topic, chat);
  },

  async "double-click"(topic) {
    const chat = open(topic);
    await ask(chat);
    const part = asked(chat)[0];
    await Promise.all([answer(chat, part, true), answer(chat, part, false)]);
    await until("the answer", () => settled(chat));
    assert.equal(chat.posts.length, 2);
    assert.equal(tools(chat)[0].state, "output-available");
    await same(topic, chat);
  },

  async "two-tabs"(topic) {
    const first = open(topic);
    await ask(first);
    const second = open(topic, { node: 1, messages: await history(topic) });
    await Promise.all([answer(first, asked(first)[0], true), answer(second, asked(second)[0], false)]);
    await until("both answers", () => settled(first) && settled(second));
    const verdict = (await card(tools(first)[0].approval.id)).state;
    const told = [first, second].map((chat) => tools(chat)[0].state);
    // A client of version 6 that believed in its approval can only be told of
    // an error.
    const want = verdict === "approved" ? ["output-available", "output-available"]
      : [version === 7 ? "output-denied" : "output-error", "output-denied"];
    assert.deepEqual(told, want, verdict);
    assert.deepEqual([first.posts.length, second.posts.length], [2, 1]);
    if (version === 7) await same(topic, first, second);
    assert.equal((await same(topic)).length, 2);
  },

  async "message-while-pending"(topic) {
    const chat = open(topic);
    await ask(chat);
    await chat.sendMessage({ text: "hello" });
    await until("the answer", () => settled(chat));
    const rows = await same(topic);
    assert.deepEqual(rows.map((m) => m.role), ["user", "assistant", "user", "assistant"]);
    const put = rows[1].parts.find((p) => p.toolCallId);
    assert.deepEqual([put.state, put.toolMetadata.countersign.outcome], ["output-denied", "superseded"]);
    const again = open(topic, { messages: rows });
    await again.sendMessage({ text: "hello" });
    await until("the next answer", () => again.messages.length === 6 && settled(again));
    await same(topic, again);
  },

  async regenerate(topic) {
    const chat = open(topic);
    await ask(chat);
    const old = chat.messages.at(-1).id;
    await chat.regenerate({ messageId: old });
    await until("another card", () => asked(chat).length === 1 && chat.status === "ready");
    assert.notEqual(chat.messages.at(-1).id, old);
    await same(topic, chat);
    await answer(chat, asked(chat)[0], true);
    await until("the answer", () => settled(chat));
    await chat.regenerate();
    await until("a third card", () => asked(chat).length === 1 && chat.status === "ready");
    assert.equal((await same(topic, chat)).length, 2);
  },

  async edit(topic) {
    const chat = open(topic);
    await ask(chat);
    const user = chat.messages[0].id;
    await chat.sendMessage({ text: "hello", messageId: user });
    await until("the answer", () => settled(chat));
    const rows = await same(topic, chat);
    assert.deepEqual(rows.map((m) => [m.role, m.id === user]), [["user", true], ["assistant", false]]);
  },
};

await Promise.all(Object.entries(scenarios).filter(([name]) => !only || name === only).map(async ([name, play]) => {
  const topic = `${name}-${version}`;
  let error;
  try {
    await play(topic);
  } catch (e) {
    error = String(e.stack ?? e);
  }
  console.log(JSON.stringify({ name, topic, error }));
}));
process.exit(0);
