/** What the example's own backend says: who this is, and where Countersign's nodes are. */
export type Session = { nodes: string[]; token: string; subject: string; expiresAt: string };

const page = new URLSearchParams(location.search);

/** The topic, and the person who looks; a real page knows the person from its own sign-in. */
export const topic = page.get('chat') ?? 'nextchat';
export const person = page.get('as') ?? 'alice';

async function signIn(): Promise<Session> {
  const answer = await fetch(`/session?${new URLSearchParams({ chat: topic, as: person })}`);
  if (!answer.ok) throw new Error(await answer.text());
  return answer.json();
}

/**
 * A fetch for Countersign's paths. It brings the person's token, a fresh one
 * when the old one's time is almost over, and goes to the next node when one
 * does not answer. A load balancer does the latter where there is one.
 */
export function connect(): typeof fetch {
  let session: Promise<Session> | undefined;
  let node = Number(page.get('node') ?? 0);
  const current = async () => {
    const now = await (session ??= signIn()).catch(error => { session = undefined; throw error; });
    if (Date.parse(now.expiresAt) - Date.now() > 60_000) return now;
    return (session = signIn());
  };
  return async (path, init) => {
    for (let tries = 1; ; tries++) {
      const { nodes, token } = await current();
      const headers = new Headers(init?.headers);
      headers.set('Authorization', `Bearer ${token}`);
      try {
        return await fetch(`${nodes[node % nodes.length]}${String(path)}`, { ...init, headers });
      } catch (error) {
        if (init?.signal?.aborted || tries >= 2 * nodes.length) throw error;
        node++; // this one is gone
      }
    }
  };
}
