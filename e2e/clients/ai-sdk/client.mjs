// A session with the AI SDK: "openai" (which by default leaves the history with
// the API and refers to its items), "openai-stateless" or "xai".

import { createOpenAI } from '@ai-sdk/openai';
import { createXai } from '@ai-sdk/xai';
import { jsonSchema, stepCountIs, streamText, tool } from 'ai';
import { apiKey, baseURL, headers, lookup, model, nextTurn, prompts, report } from '../session.mjs';

const settings = { apiKey, baseURL, headers };
const openai = { forceReasoning: true };
const ways = {
  openai: { model: createOpenAI(settings).responses(model), providerOptions: { openai } },
  'openai-stateless': {
    model: createOpenAI(settings).responses(model),
    providerOptions: { openai: { ...openai, store: false, include: ['reasoning.encrypted_content'] } },
  },
  xai: { model: createXai(settings).responses(model) },
};

const messages = [];
const answers = [];
for (const prompt of prompts) {
  if (messages.length > 0) await nextTurn();
  messages.push({ role: 'user', content: prompt });
  const result = streamText({
    ...ways[process.argv[2]],
    messages,
    tools: {
      lookup: tool({
        description: lookup.description,
        inputSchema: jsonSchema(lookup.parameters),
        execute: lookup.run,
      }),
    },
    stopWhen: stepCountIs(5),
    onError() {}, // thrown below
  });
  for await (const part of result.fullStream) {
    if (part.type === 'error') throw part.error;
  }
  messages.push(...(await result.responseMessages));
  answers.push(await result.text);
}
report(answers);
