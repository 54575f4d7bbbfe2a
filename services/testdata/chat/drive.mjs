// The published clients of the AI SDK, driven through whole conversations
// behind a backend that waits where it is told to. In, beside the page's:
// {"key", "backend": url, "only"?}.
const version = input.versions[0];
const card = (id) => json(connect(input.key)(`/v1/approvals/${id}`));
const release = (topic) => json(fetch(`${input.backend}/release/${topic}`, { method: "POST" }));

async function ask(chat, text = "one", cards = 1) {
  await chat.sendMessage({ text });
  await until("the cards", () => asked(chat).length === cards && chat.status === "ready");
}

const scenarios = {
  async approve(topic) {
    const chat = await open(topic);
    await ask(chat);
    await answer(chat, asked(chat)[0], true, "looks fine");
    await until("the answer", () => settled(chat));
    assert.equal(chat.posts.length, 2);
    assert.equal(tools(chat)[0].state, "output-available");
    await same(topic, chat);
  },

  async deny(topic) {
    const chat = await open(topic);
    await ask(chat);
    await answer(chat, asked(chat)[0], false, "no!");
    await until("the answer", () => settled(chat));
    assert.equal(chat.posts.length, 2);
    assert.deepEqual(tools(chat).map((p) => [p.state, p.approval.approved, p.approval.reason]), [["output-denied", false, "no!"]]);
    await same(topic, chat);
  },

  async "two-in-order"(topic) {
    const chat = await open(topic);
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
    const chat = await open(topic);
    await ask(chat, "two", 2);
    await Promise.all(asked(chat).map((p) => answer(chat, p, true)));
    await until("the answer", () => settled(chat));
    assert.equal(chat.posts.length, 2);
    await same(topic, chat);
  },

  async "while-streaming"(topic) {
    const chat = await open(topic);
    const sent = chat.sendMessage({ text: "hold" });
    await until("the card", () => asked(chat).length === 1);
    await until("that it streams", () => chat.status === "streaming"); // React may show the card a render before it
    await answer(chat, asked(chat)[0], true);
    assert.equal(chat.posts.length, 1);
    await release(topic);
    await sent;
    await until("the answer", () => settled(chat));
    assert.equal(chat.posts.length, 2);
    await same(topic, chat);
  },

  async reload(topic) {
    const before = await open(topic);
    await ask(before);
    const chat = await open(topic, { node: 1, messages: await history(topic) });
    await chat.resumeStream();
    await until("that nothing is active", () => chat.status === "ready");
    await answer(chat, asked(chat)[0], true);
    await until("the answer", () => settled(chat));
    assert.equal(chat.posts.length, 1);
    await same(topic, chat);
  },

  async "resume-while-streaming"(topic) {
    const before = await open(topic);
    before.sendMessage({ text: "hold" });
    await until("the card", () => asked(before).length === 1);
    const chat = await open(topic, { node: 1, messages: await history(topic) });
    const resumed = chat.resumeStream();
    await until("the card in the other window", () => asked(chat).length === 1);
    await release(topic);
    await resumed;
    await until("the end", () => before.status === "ready" && chat.status === "ready");
    await answer(chat, asked(chat)[0], true);
    await until("the answer", () => settled(chat));
    await same(topic, chat);
    const again = await open(topic, { messages: await history(topic) });
    await again.resumeStream();
    await same(topic, again);
  },

  async "dropped-continuation"(topic) {
    const chat = await open(topic, { cut: 2 });
    await ask(chat, "late");
    await answer(chat, asked(chat)[0], true);
    await until("the cut", () => chat.status === "error");
    assert.equal(chat.posts.length, 2);
    const resumed = chat.resumeStream();
    await release(topic);
    await resumed;
    await until("the answer", () => settled(chat), chat);
    assert.equal(chat.posts.length, 2);
    await same(topic, chat);
  },

  async "double-click"(topic) {
    const chat = await open(topic);
    await ask(chat);
    const part = asked(chat)[0];
    await Promise.all([answer(chat, part, true), answer(chat, part, false)]);
    await until("the answer", () => settled(chat));
    assert.equal(chat.posts.length, 2);
    assert.equal(tools(chat)[0].state, "output-available");
    await same(topic, chat);
  },

  async "two-tabs"(topic) {
    const first = await open(topic);
    await ask(first);
    const second = await open(topic, { node: 1, messages: await history(topic) });
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
    const chat = await open(topic);
    await ask(chat);
    await chat.sendMessage({ text: "hello" });
    await until("the answer", () => settled(chat));
    const rows = await same(topic);
    assert.deepEqual(rows.map((m) => m.role), ["user", "assistant", "user", "assistant"]);
    const put = rows[1].parts.find((p) => p.toolCallId);
    assert.deepEqual([put.state, put.toolMetadata.countersign.outcome], ["output-denied", "superseded"]);
    const again = await open(topic, { messages: rows });
    await again.sendMessage({ text: "hello" });
    await until("the next answer", () => again.messages.length === 6 && settled(again));
    await same(topic, again);
  },

  async regenerate(topic) {
    const chat = await open(topic);
    await ask(chat);
    const old = chat.messages.at(-1).id;
    await chat.regenerate({ messageId: old });
    await until("another card", () => asked(chat).length === 1 && chat.status === "ready" && chat.messages.at(-1).id !== old);
    await same(topic, chat);
    await answer(chat, asked(chat)[0], true);
    await until("the answer", () => settled(chat));
    await chat.regenerate();
    await until("a third card", () => asked(chat).length === 1 && chat.status === "ready");
    assert.equal((await same(topic, chat)).length, 2);
  },

  async edit(topic) {
    const chat = await open(topic);
    await ask(chat);
    const user = chat.messages[0].id;
    await chat.sendMessage({ text: "hello", messageId: user });
    await until("the answer", () => settled(chat));
    const rows = await same(topic, chat);
    assert.deepEqual(rows.map((m) => [m.role, m.id === user]), [["user", true], ["assistant", false]]);
  },
};

await play(scenarios, (name) => `${name}-${version}`);
