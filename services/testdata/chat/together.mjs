// Pages that keep their chats by useCountersign: several people, several
// windows, several models. In, beside the page's: {"key", "backend": url,
// "only"?}.
const version = input.versions[0];
const release = (topic) => json(fetch(`${input.backend}/release/${topic}`, { method: "POST" }));
const cards = (chat) => chat.messages.flatMap((m) => m.parts).filter((p) => p.state === "approval-requested");
const two = (topic) => Promise.all([0, 1].map((node) => open(topic, { node, live: true })));

async function decide(chat, part, approved, reason) {
  assert.equal(await chat.decide(part.approval.id, { approved, reason }), undefined);
}

const scenarios = {
  async "live-approve"(topic) {
    const [alice, bob] = await two(topic);
    await alice.sendMessage({ text: "one" });
    await until("the card in both windows", () => cards(alice).length === 1 && cards(bob).length === 1);
    await decide(bob, cards(bob)[0], true, "looks fine");
    await until("the answer in both windows", () => settled(alice) && settled(bob));
    assert.deepEqual([alice.posts.length, bob.posts.length], [1, 0]);
    await until("the reason", () => tools(alice).every((p) => p.state === "output-available" && p.approval?.reason === "looks fine"));
    await same(topic, alice, bob);
    alice.close(), bob.close();
  },

  async "live-deny"(topic) {
    const [alice, bob] = await two(topic);
    await alice.sendMessage({ text: "one" });
    await until("the card in both windows", () => cards(alice).length === 1 && cards(bob).length === 1);
    await decide(bob, cards(bob)[0], false, "no!");
    await until("the answer in both windows", () => settled(alice) && settled(bob));
    for (const chat of [alice, bob])
      await until("the reason", () => tools(chat).every((p) => p.state === "output-denied" && p.approval?.reason === "no!"));
    await same(topic, alice, bob);
    assert.match(await alice.decide(tools(alice)[0].approval.id, { approved: true }), /./, "another verdict is taken");
    alice.close(), bob.close();
  },

  // Each answers one of the two cards of a step.
  async "live-two"(topic) {
    const [alice, bob] = await two(topic);
    await alice.sendMessage({ text: "two" });
    await until("the cards in both windows", () => cards(alice).length === 2 && cards(bob).length === 2);
    const [first, other] = cards(alice);
    await Promise.all([decide(alice, first, true), decide(bob, other, false)]);
    await until("the answer in both windows", () => settled(alice) && settled(bob));
    await same(topic, alice, bob);
    assert.deepEqual(tools(bob).map((p) => p.state).sort(), ["output-available", "output-denied"]);
    alice.close(), bob.close();
  },

  // A page is loaded anew while its answer streams, and once more behind it.
  async "live-reload"(topic) {
    const before = await open(topic, { live: true });
    before.sendMessage({ text: "hold" });
    await until("the card", () => cards(before).length === 1);
    before.close();
    const chat = await open(topic, { node: 1, live: true });
    await until("the stream", () => cards(chat).length === 1 && chat.status === "streaming");
    await decide(chat, cards(chat)[0], true);
    await release(topic);
    await until("the answer", () => settled(chat));
    const again = await open(topic, { node: 1, live: true });
    await until("the answer once more", () => settled(again));
    await same(topic, chat, again);
    chat.close(), again.close();
  },

  // Another model asks while one still streams here: its card is there at once
  // and can be answered, and the stream goes on.
  async "live-beside"(topic) {
    const [alice, bob] = await two(topic);
    alice.sendMessage({ text: "hold" });
    await until("the stream in both windows", () => [alice, bob].every((chat) => cards(chat).length === 1 && chat.status === "streaming"));
    const call = connect(input.key);
    const part = { type: "tool-delete_file", toolCallId: "beside", state: "input-available", input: { path: topic } };
    const beside = await json(call(`/v1/topics/${topic}/turns`, {
      method: "POST", headers: { "content-type": "application/json" },
      body: JSON.stringify({ messageId: "beside", parts: [part], whileOpen: "parallel", sink: { type: "jetstream", name: "nobody" } }),
    }));
    await until("the other card in both windows", () => cards(alice).length === 2 && cards(bob).length === 2);
    assert.deepEqual([alice.status, bob.status], ["streaming", "streaming"]);
    const own = cards(alice).find((p) => p.toolCallId !== "beside");
    await decide(bob, beside.message.parts.at(-1), true);
    for (const chat of [alice, bob]) {
      const its = () => chat.messages.find((m) => m.id === "beside").parts.at(-1).state;
      await until("what came of the other card", () => its() === "output-available");
      assert.deepEqual(cards(chat).map((p) => p.toolCallId), [own.toolCallId]);
    }
    await decide(alice, own, true);
    await release(topic);
    const all = (chat) => chat.messages.flatMap((m) => m.parts).filter((p) => p.type === "text").map((p) => p.text).join(" ");
    await until("the answer in both windows", () => [alice, bob].every((chat) => all(chat).includes("Done.")));
    alice.close(), bob.close();
  },
};

await play(scenarios, (name) => `${name}-${version}`);
