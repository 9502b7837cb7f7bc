// A session with the Agents SDK, which runs the tools itself.

import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } from '@openai/agents';
import OpenAI from 'openai';
import { apiKey, baseURL, headers, lookup, model, prompts, report } from '../session.mjs';

setTracingDisabled(true);
const runner = new Runner({
  modelProvider: new OpenAIProvider({
    openAIClient: new OpenAI({ apiKey, baseURL, defaultHeaders: headers }),
    useResponses: true,
  }),
});
const agent = new Agent({
  name: 'e2e',
  model,
  modelSettings: { store: false, providerData: { include: ['reasoning.encrypted_content'] } },
  tools: [
    tool({
      name: lookup.name,
      description: lookup.description,
      parameters: lookup.parameters,
      strict: true,
      execute: lookup.run,
    }),
  ],
});

let history = [];
const answers = [];
for (const prompt of prompts) {
  const result = await runner.run(agent, [...history, { role: 'user', content: prompt }], { stream: true });
  for await (const _ of result) {
    // Nothing is sent on before the events are taken.
  }
  await result.completed;
  history = result.history;
  answers.push(result.finalOutput);
}
report(answers);
