// Signing in and out on a server with a token and an administrator; keys, and the end of one.

const { SKILLS_HTTP_TOKEN: TOKEN, ADMIN_KEY } = process.env;

export default async function users({ browser, checks }) {
  const stranger = await browser.window();
  await stranger.open('/ui');
  checks.that(stranger.page.url().includes('/ui/sign-in?next='), 'a stranger has to sign in');
  await stranger.page.fill('#credential', 'wrong');
  await stranger.page.getByRole('button', { name: 'Sign in' }).click();
  checks.that(await stranger.page.getByRole('alert').isVisible(), 'a wrong key is refused');
  await stranger.expectAccessible(checks, 'sign in');

  const admin = await browser.window();
  await signIn(admin, ADMIN_KEY, 'Administrator');
  await admin.open('/ui/people');
  await admin.page.fill('#uid', 'ann');
  await admin.page.selectOption('#plan', 'PRO');
  await admin.page.getByRole('button', { name: 'Create key' }).click();
  const key = await admin.page.locator('.notice code').textContent();
  checks.that(key.startsWith('us-'), 'a key is shown once');
  await admin.expectAccessible(checks, 'people');

  await admin.page.goto('about:blank');
  await admin.page.setContent(`<a href="${browser.origin}/ui/overview">a link on another site</a>`);
  await admin.page.getByRole('link').click();
  await admin.page.locator('.person summary', { hasText: 'Administrator' }).waitFor();
  checks.that(admin.page.url().endsWith('/ui/overview'), 'a link of another site opens the page, and the session stays');

  const ann = await browser.window();
  await signIn(ann, key, 'ann');
  const stored = await ann.page.evaluate(() => [localStorage.length, sessionStorage.length, document.cookie]);
  checks.equal(stored, [0, 0, ''], 'scripts see no credential');
  checks.that(!ann.page.url().includes(key), 'the address has no credential');
  await ann.open('/ui/people');
  checks.that(await ann.page.getByText('only an administrator').isVisible(), 'a user is no administrator');

  await ann.open('/ui');
  await ann.page.locator('#connection', { hasText: 'Live' }).waitFor();
  await admin.open('/ui/people');
  await admin.page.locator('.confirm summary').first().click();
  await admin.page.getByRole('button', { name: /^Revoke key/ }).first().click();
  await ann.page.waitForURL('**/ui/sign-in**', { timeout: 20_000 });
  checks.that(true, 'a revoked key ends the session at once');

  const tokenHolder = await browser.window({ script: false });
  await signIn(tokenHolder, TOKEN, 'Token');
  await tokenHolder.open('/ui/publish');
  checks.that(await tokenHolder.page.getByText('may not change it').isVisible(), 'the token only reads');
  await tokenHolder.page.locator('.person summary').click();
  await tokenHolder.page.getByRole('button', { name: 'Sign out' }).click();
  await tokenHolder.open('/ui');
  checks.that(tokenHolder.page.url().includes('/ui/sign-in'), 'signing out ends the session');
  for (const window of [stranger, admin, ann, tokenHolder]) {
    await window.expectCalm(checks, 'users');
    await window.close();
  }
}

async function signIn(window, credential, name) {
  await window.open('/ui/sign-in');
  await window.page.fill('#credential', credential);
  await window.page.getByRole('button', { name: 'Sign in' }).click();
  await window.page.locator('.person summary', { hasText: name }).waitFor();
}
