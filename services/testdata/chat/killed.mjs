// Conversations whose node is killed while they stream, each seen in two
// windows: one on either node, of either version. In, beside the page's:
// {"key": mints people's tokens, "topics": [{"topic", "version": of the window
// that asks}]}.
async function conversation({ topic, version }) {
  const minted = await json(connect(input.key)("/v1/tokens", {
    method: "POST", headers: { "content-type": "application/json" },
    body: JSON.stringify({ subject: `user:${topic}`, topics: [topic] }),
  }));
  const page = (node, version) => open(topic, { node, version, key: minted.token, live: true });
  const asks = await page(1, version), decides = await page(0, 13 - version);
  asks.sendMessage({ text: topic });
  await until("the card", () => asked(decides).length === 1, asks, decides);
  assert.equal(await decides.decide(asked(decides)[0].approval.id, { approved: true }), undefined);
  await until("the answer in both windows", () => settled(asks) && settled(decides), asks, decides);
  const rows = await same(topic, asks, decides);
  assert.deepEqual(rows.map((m) => m.role), ["user", "assistant"]);
  assert.deepEqual(tools(asks).map((p) => p.state), ["output-available"]);
  asks.close(), decides.close();
}

await play(Object.fromEntries(input.topics.map((t) => [t.topic, () => conversation(t)])), (name) => name);
