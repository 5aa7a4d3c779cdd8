// What a search of the documentation shows first: guides of use, and the decisions last.
var Scorer = {
  score: ([page, , , , score]) => {
    if (page.startsWith("decisions/")) return score - 8;
    return score + (/^how-to\/(?!add-|release)/.test(page) ? 8 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
