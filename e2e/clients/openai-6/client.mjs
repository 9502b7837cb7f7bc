import OpenAI from 'openai';
import { session } from '../openai.mjs';

await session(OpenAI, process.argv[2]);
