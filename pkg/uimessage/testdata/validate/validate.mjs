// Reads {"name": UIMessage, …} from standard input and says, for each version
// of the SDK, which of them validateUIMessages refuses, and why.
import * as ai6 from "ai6";
import * as ai7 from "ai7";

let text = "";
for await (const chunk of process.stdin) text += chunk;

const refused = {};
for (const [name, message] of Object.entries(JSON.parse(text))) {
  for (const [version, sdk] of Object.entries({ ai6, ai7 })) {
    const result = await sdk.safeValidateUIMessages({ messages: [message] });
    if (!result.success) refused[`${version}: ${name}`] = String(result.error.message);
  }
}
console.log(JSON.stringify(refused));
