// The links to the sections.
'use strict';

for (const section of document.querySelectorAll('main > section')) {
  const link = document.createElement('a');
  link.href = '#' + section.id;
  link.textContent = section.querySelector('h2').textContent;
  document.querySelector('nav').append(link);
}
