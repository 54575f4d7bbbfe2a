// Pages with the published clients of the AI SDK, rendered by React without a
// browser, on the nodes of a deployment. In: {"nodes": [url], "hook": the
// source of useCountersign.ts, ...}.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { build } from "esbuild";
import { createElement } from "react";
import { create } from "react-test-renderer";

const input = JSON.parse(process.argv[1]);
const { nodes } = input;

const sdk = {};
for (const version of input.versions) sdk[version] = { ai: await import(`ai${version}`), ...(await import(`react${version}`)) };
const { useCountersign } = await compiled(input.hook);

async function compiled(contents) {
  const { outputFiles } = await build({
    stdin: { contents, loader: "ts", resolveDir: process.cwd() },
    bundle: true, format: "cjs", platform: "node", external: ["react"], write: false,
  });
  const module = { exports: {} };
  new Function("module", "exports", "require", outputFiles[0].text)(module, module.exports, createRequire(`${process.cwd()}/`));
  return module.exports;
}

const deadline = 60_000;
const pause = () => new Promise((r) => setTimeout(r, 10));
async function until(what, holds, ...windows) {
  for (const end = Date.now() + deadline; !holds(); await pause())
    if (Date.now() > end) throw new Error([`${what} did not come`, ...windows.map((w) => `${w.status} ${w.error ?? ""} ${JSON.stringify(w.messages)}`)].join("\n"));
}

// A fetch for the nodes: it brings a key, and goes to the next node when one
// does not answer.
function connect(key, node = 0) {
  return async (path, options) => {
    for (let tries = 1; ; tries++) {
      try {
        return await fetch(nodes[node % nodes.length] + path, { ...options, headers: { ...options?.headers, authorization: `Bearer ${key}` } });
      } catch (error) {
        if (options?.signal?.aborted || tries > 2 * nodes.length) throw error;
        node++;
      }
    }
  };
}

async function json(response) {
  const answer = await response;
  if (!answer.ok) throw new Error(`${answer.url}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}
const history = async (topic, call = connect(input.key)) => (await json(call(`/v1/topics/${topic}/messages`))).items;

// A page of a conversation. With live it keeps its chat by useCountersign, and
// without it is a bare useChat that posts its answers by itself.
async function open(topic, { version = input.versions[0], key = input.key, node = 0, messages = [], resume, cut, live } = {}) {
  const { ai, useChat } = sdk[version];
  const posts = [];
  const call = connect(key, node);
  const transport = new ai.DefaultChatTransport({
    api: "/api/chat" + (version === 7 ? "?sdk=7" : ""),
    fetch: async (path, options) => {
      if (options.method !== "POST") return call(path, options);
      posts.push(JSON.parse(options.body));
      const response = await call(path, options);
      return posts.length === cut ? cutOff(response) : response;
    },
  });
  const sendAutomaticallyWhen = live ? undefined : ai.lastAssistantMessageIsCompleteWithApprovalResponses;
  let now; // what the page shows, and what its person can do
  const root = create(createElement(() => {
    const chat = useChat({ id: topic, messages, transport, resume, sendAutomaticallyWhen, onError: () => {} });
    now = live ? { ...chat, ...useCountersign(chat, call) } : chat;
    return null;
  }));
  await until("the page", () => now);
  const window = { posts, version, close: () => root.unmount() };
  for (const name of ["messages", "status", "error"]) Object.defineProperty(window, name, { get: () => now[name] });
  for (const name of ["sendMessage", "regenerate", "resumeStream", "addToolApprovalResponse", "decide"]) window[name] = (...given) => now[name](...given);
  return window;
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
const shape = (messages) => JSON.stringify(messages.map((m) => [m.id, m.role,
  m.parts.filter((p) => p.type !== "step-start").map((p) => p.toolCallId ? [p.toolCallId, p.state, p.input, p.output ?? p.errorText] : p.text)]));
async function same(topic, ...windows) {
  const rows = await history(topic);
  for (const { ai } of Object.values(sdk)) await ai.validateUIMessages({ messages: rows });
  for (const window of windows) {
    await until("what the rows say", () => shape(window.messages) === shape(rows))
      .catch(() => assert.equal(shape(window.messages), shape(rows), "the window and the rows differ"));
    if (window.version === 7) await sdk[7].ai.validateUIMessages({ messages: window.messages });
  }
  return rows;
}

// Plays scenarios, all at once, and says a line about each: {"name", "topic", "error"?}.
async function play(scenarios, topicOf) {
  await Promise.all(Object.entries(scenarios).filter(([name]) => !input.only || name.startsWith(input.only)).map(async ([name, scenario]) => {
    const topic = topicOf(name);
    let error;
    try {
      await scenario(topic);
    } catch (e) {
      error = String(e.stack ?? e);
    }
    console.log(JSON.stringify({ name, topic, error }));
  }));
  process.exit(0);
}
