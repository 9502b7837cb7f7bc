// What the SDK clients have in common: where the proxy is, what is asked, the
// one tool, and how the answers are reported to the test.

const env = (name) => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set`);
  return value;
};

export const baseURL = env('E2E_BASE_URL');
export const apiKey = 'e2e';
export const headers = JSON.parse(env('E2E_HEADERS'));
export const prompts = JSON.parse(env('E2E_PROMPTS'));
export const model = 'sim-1';

export const lookup = {
  name: 'lookup',
  description: 'Tells where a thing is.',
  parameters: {
    type: 'object',
    properties: { thing: { type: 'string' } },
    required: ['thing'],
    additionalProperties: false,
  },
  run: ({ thing }) => `on shelf 7: ${thing}`,
};

// A test that changes something between two turns is asked before the second.
export const nextTurn = async () => {
  const gate = process.env.E2E_GATE;
  if (gate) await fetch(gate);
};

// The last line of stdout is for the test.
export const report = (answers) => console.log(JSON.stringify({ answers }));
