// Drives windows of a headless Chromium: a command per line comes in, as JSON,
// and its answer goes out.
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox'] });
const windows = new Map();

// Each window has a context of its own, as those of two people have.
async function open({ window, url }) {
  const context = await browser.newContext({ viewport: { width: 760, height: 860 }, deviceScaleFactor: 2, locale: 'en-GB', timezoneId: 'UTC' });
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  page.faults = [];
  page.on('pageerror', error => page.faults.push(String(error)));
  windows.set(window, page);
  await page.goto(url);
}

const element = (page, { selector, text }) => page.locator(selector).filter(text ? { hasText: text } : {});

const commands = {
  click: (page, c) => element(page, c).click(),
  fill: (page, c) => element(page, c).fill(c.value),
  press: (page, c) => element(page, c).press(c.value),
  see: (page, c) => element(page, c).first().waitFor(),
  gone: (page, c) => element(page, c).first().waitFor({ state: 'detached' }),
  read: async (page, c) => (await element(page, c).allInnerTexts()).join('\n'),
  reload: page => page.reload(),
  shot: (page, c) => page.screenshot({ path: c.value, animations: 'disabled' }),
  faults: page => page.faults.join('\n'),
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  try {
    const value = command.do === 'open' ? await open(command) : await commands[command.do](windows.get(command.window), command);
    console.log(JSON.stringify({ value: typeof value === 'string' ? value : '' }));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error) }));
  }
}
await browser.close();
