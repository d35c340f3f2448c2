// News that come while a page is being made wait here until it is shown. Those beyond the bound are counted as missed.

const MOST = 2000; // messages and counts

// Whether a page has to read again: something that concerns it was told, or something was not told one by one.
export const concerns = (told, one) => told.anew || told.missed > 0 || told.counted.length > 0 || told.hops.some(one);

export class Kept {
  constructor() {
    this.told = null;
  }

  add(news) {
    const told = this.told ?? { anew: false, missed: 0, hops: [], counted: [] };
    const room = () => MOST - told.hops.length - told.counted.length;
    const [hops, counted] = [news.hops.slice(0, room()), news.counted.slice(0, Math.max(0, room() - news.hops.length))];
    const left = news.counted.slice(counted.length).reduce((sum, one) => sum + one[3], news.hops.length - hops.length);
    this.told = {
      ...news,
      anew: told.anew || news.anew,
      missed: told.missed + news.missed + left,
      hops: [...told.hops, ...hops],
      counted: [...told.counted, ...counted],
    };
  }
}
