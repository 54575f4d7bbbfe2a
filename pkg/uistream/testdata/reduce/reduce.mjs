// Reads [{"version": 6|7, "chunks": [...], "before"?: UIMessage}, …] from
// standard input and says for each what the SDK's own client makes of the
// chunks: {"message"} or {"error"}, and whether validateUIMessages takes it.
import * as ai6 from "ai6";
import * as ai7 from "ai7";

let text = "";
for await (const chunk of process.stdin) text += chunk;

async function reduce({ version, chunks, before }) {
  const sdk = version === 7 ? ai7 : ai6;
  const stream = new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(chunk);
      controller.close();
    },
  });
  try {
    let message = before;
    let failed;
    const updates = sdk.readUIMessageStream({ message: before && structuredClone(before), stream, onError: (e) => (failed = e), terminateOnError: true });
    for await (const update of updates) message = update;
    if (failed) return { error: String(failed) };
    const valid = await sdk.safeValidateUIMessages({ messages: [message] });
    return { message, invalid: valid.success ? undefined : String(valid.error.message) };
  } catch (error) {
    return { error: String(error) };
  }
}

const out = [];
for (const item of JSON.parse(text)) out.push(await reduce(item));
console.log(JSON.stringify(out));
