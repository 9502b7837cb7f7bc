// A session with the official library, of whichever version, stateless: the
// client keeps the history and sends it all again. With "helper" the library
// puts the response together from the events, with "events" the items are taken
// as they are done. With "chain" the API keeps the history, and each request
// names the response before.

import { apiKey, baseURL, headers, lookup, model, prompts, report } from './session.mjs';

export async function session(OpenAI, way) {
  if (way === 'chain') return chain(OpenAI);
  const client = new OpenAI({ apiKey, baseURL, defaultHeaders: headers });
  const ask = { helper, events }[way];
  const { run, ...tool } = lookup;
  const input = [];
  const answers = [];
  for (const prompt of prompts) {
    input.push({ role: 'user', content: prompt });
    for (;;) {
      const items = await ask(client, {
        model,
        input,
        store: false,
        include: ['reasoning.encrypted_content'],
        tools: [{ type: 'function', strict: true, ...tool }],
      });
      input.push(...items);
      const calls = items.filter((item) => item.type === 'function_call');
      for (const call of calls) {
        const output = run(JSON.parse(call.arguments));
        input.push({ type: 'function_call_output', call_id: call.call_id, output });
      }
      if (calls.length > 0) continue;
      answers.push(
        items.filter((item) => item.type === 'message').map((item) => item.content[0].text).join('\n'),
      );
      break;
    }
  }
  report(answers);
}

async function helper(client, body) {
  const response = await client.responses.stream(body).finalResponse();
  if (response.status !== 'completed') throw new Error(`the response is ${response.status}`);
  return response.output;
}

async function events(client, body) {
  const items = [];
  let last;
  for await (const event of await client.responses.create({ ...body, stream: true })) {
    if (event.type === 'response.output_item.done') items.push(event.item);
    last = event.type;
  }
  if (last !== 'response.completed') throw new Error(`the last event is ${last}`);
  return items;
}

async function chain(OpenAI) {
  const client = new OpenAI({ apiKey, baseURL, defaultHeaders: headers });
  const { run, ...tool } = lookup;
  const tools = [{ type: 'function', strict: true, ...tool }];
  const answers = [];
  let previous_response_id;
  for (const prompt of prompts) {
    let input = [{ role: 'user', content: prompt }];
    for (;;) {
      const response = await client.responses.stream({ model, input, previous_response_id, tools }).finalResponse();
      if (response.status !== 'completed') throw new Error(`the response is ${response.status}`);
      previous_response_id = response.id;
      const calls = response.output.filter((item) => item.type === 'function_call');
      input = calls.map((call) => ({
        type: 'function_call_output',
        call_id: call.call_id,
        output: run(JSON.parse(call.arguments)),
      }));
      if (calls.length > 0) continue;
      answers.push(response.output_text);
      break;
    }
  }
  report(answers);
}
