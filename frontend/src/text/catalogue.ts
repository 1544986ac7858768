// All texts: key to English and Simplified Chinese.
import { accessTexts } from "./access";
import { actionTexts } from "./actions";
import { alarmTexts } from "./alarms";
import { codeTexts } from "./codes";
import { fleetTexts } from "./fleet";
import { frameTexts } from "./frame";
import { signInTexts } from "./signIn";
import { workTexts } from "./work";

export type Texts = Record<string, readonly [english: string, chinese: string]>;

export const catalogue = {
  ...frameTexts,
  ...codeTexts,
  ...alarmTexts,
  ...actionTexts,
  ...fleetTexts,
  ...workTexts,
  ...accessTexts,
  ...signInTexts,
};
